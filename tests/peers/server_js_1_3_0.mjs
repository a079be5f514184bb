// The agent of the scenario on @a2a-js/sdk 1.3.0: dialect 1.0 on all three bindings.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

// The SDK is where this process was started, not beside this file.
const require = createRequire(`${process.cwd()}/`);
const { AgentCard } = require("@a2a-js/sdk");
const { AgentEvent, DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } = require("@a2a-js/sdk/server");
const { agentCardHandler, jsonRpcHandler, restHandler } = require("@a2a-js/sdk/server/express");
const { A2AService, grpcService } = require("@a2a-js/sdk/server/grpc");
const express = require("express");
const grpc = require("@grpc/grpc-js");

const STATES = { working: 2, completed: 3, failed: 4, canceled: 5, "input-required": 6, rejected: 7 };
const ROLE_AGENT = 2;
const MODES = ["text/plain", "application/json", "image/png", "application/pdf"];
const SKILLS = [
  { id: "echo", name: "Echo", description: "Says what you say.", tags: ["text"] },
  { id: "count", name: "Count", description: "Counts, one chunk a number.", tags: ["numbers"] },
];
const VAULT = { id: "vault", name: "Vault", description: "Is for callers who are known.", tags: ["private"] };

const gates = new Map();
const gate = (name) => {
  if (!gates.has(name)) {
    let open;
    const opened = new Promise((resolve) => (open = resolve));
    gates.set(name, { open, opened });
  }
  return gates.get(name);
};

const textPart = (text) => ({ content: { $case: "text", value: text }, metadata: undefined, filename: "", mediaType: "" });

class Turn {
  constructor(context, bus) {
    this.bus = bus;
    this.ids = { taskId: context.taskId, contextId: context.contextId };
    this.message = context.userMessage;
    this.text = this.message.parts.map((part) => (part.content?.$case === "text" ? part.content.value : "")).join("");
  }

  begin(task, message) {
    const { taskId: id, contextId } = this.ids;
    const status = { state: 1, message: undefined, timestamp: new Date().toISOString() };
    const fresh = { id, contextId, status, artifacts: [], history: [message], metadata: undefined };
    this.bus.publish(AgentEvent.task(task ?? fresh));
  }

  enter(state, text) {
    const message = text && {
      messageId: randomUUID(), role: ROLE_AGENT, parts: [textPart(text)], ...this.ids,
      metadata: undefined, extensions: [], referenceTaskIds: [],
    };
    const status = { state: STATES[state], message: message || undefined, timestamp: new Date().toISOString() };
    this.bus.publish(AgentEvent.statusUpdate({ ...this.ids, status, metadata: undefined }));
  }

  add(parts, { id = "answer", append = false, lastChunk = true } = {}) {
    const artifact = { artifactId: id, name: "", description: "", parts, metadata: undefined, extensions: [] };
    this.bus.publish(AgentEvent.artifactUpdate({ ...this.ids, artifact, append, lastChunk, metadata: undefined }));
  }

  finish(...parts) {
    this.add(parts);
    this.enter("completed");
  }

  echo = () => this.finish(textPart(this.text.replace("echo ", "")));
  files = () => this.finish(...this.message.parts.slice(1));
  fail = () => this.enter("failed", "The oven is broken.");
  reject = () => this.enter("rejected", "Not on Sundays.");

  async count() {
    const [, last, , , pause, , name] = this.text.split(" ");
    this.enter("working");
    for (let number = 1; number <= Number(last); number += 1) {
      this.add([textPart(`${number} `)], { id: "numbers", append: number > 1, lastChunk: number === Number(last) });
      if (number === Number(pause)) await gate(name).opened;
    }
    this.enter("completed");
  }

  open() {
    gate(this.text.split(" ")[1]).open();
    this.finish(textPart("open"));
  }

  ask() {
    this.enter("working");
    this.enter("input-required", "For how many?");
  }

  data() {
    const got = this.message.parts[1].content.value;
    this.finish({ content: { $case: "data", value: { got } }, metadata: undefined, filename: "", mediaType: "" });
  }

  async wait() {
    this.enter("working");
    await gate(this.ids.taskId).opened;
  }
}

const executor = {
  async execute(context, bus) {
    const turn = new Turn(context, bus);
    turn.begin(context.task, context.userMessage);
    if (context.task) turn.finish(textPart(`A table for ${turn.text}.`));
    else await turn[turn.text.split(" ")[0]]();
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    const turn = new Turn({ taskId, contextId: "", userMessage: { parts: [] } }, bus);
    turn.enter("canceled");
    gate(taskId).open();
  },
};

// Everybody is known here: strangers get the public card where they ask for the extended one.
const userBuilder = async () => ({ isAuthenticated: true, userName: "tester" });

// Its log of refused calls would only fill the test's.
console.error = () => {};

const makeCard = (url, grpcUrl, skills) =>
  AgentCard.fromJSON({
    name: "Scenario",
    description: "Does what the interop tests ask for.",
    version: "4.2.0",
    supportedInterfaces: [
      { url: `${url}/rpc`, protocolBinding: "JSONRPC", protocolVersion: "1.0" },
      { url: `${url}/rest`, protocolBinding: "HTTP+JSON", protocolVersion: "1.0" },
      { url: grpcUrl, protocolBinding: "GRPC", protocolVersion: "1.0" },
    ],
    capabilities: { streaming: true, pushNotifications: true, extendedAgentCard: true },
    defaultInputModes: MODES,
    defaultOutputModes: MODES,
    skills,
  });

const app = express();
const grpcServer = new grpc.Server();
const http = app.listen(0, "127.0.0.1", () => {
  grpcServer.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, grpcPort) => {
    if (error) throw error;
    const url = `http://127.0.0.1:${http.address().port}`;
    const grpcUrl = `127.0.0.1:${grpcPort}`;
    const nowhere = { send: async () => {} };
    const requestHandler = new DefaultRequestHandler(
      makeCard(url, grpcUrl, SKILLS), new InMemoryTaskStore(), executor, undefined,
      new InMemoryPushNotificationStore(), nowhere, makeCard(url, grpcUrl, [...SKILLS, VAULT]), undefined,
      { validateInputModes: true },
    );
    const options = { requestHandler, userBuilder };
    app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
    app.use("/rpc", jsonRpcHandler(options));
    app.use("/rest", restHandler(options));
    grpcServer.addService(A2AService, grpcService(options));
    console.log(JSON.stringify({ url }));
  });
});
