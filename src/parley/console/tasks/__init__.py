"""Tasks as the console shows them: lists, logs, the forms of events and requests, webhooks, trees and files.

Everything here reads the store of the engine, for callers whom a `TaskAccess` admits. Routes are in `api/tasks`.
"""
