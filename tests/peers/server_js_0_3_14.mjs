// The agent of the scenario on @a2a-js/sdk 0.3.14: dialect 0.3 on all three bindings.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The SDK is where this process was started, not beside this file. Its modules are imported and not required: those that
// are required have a class of errors each, and do not know the others' errors.
const require = createRequire(`${process.cwd()}/`);
const sdk = (name) => import(pathToFileURL(`${process.cwd()}/node_modules/a2a-js-sdk-0.3/dist/${name}/index.js`));
const { DefaultRequestHandler, InMemoryPushNotificationStore, InMemoryTaskStore } = await sdk("server");
const { agentCardHandler, jsonRpcHandler, restHandler } = await sdk("server/express");
const { A2AService, grpcService } = await sdk("server/grpc");
const express = require("express");
const grpc = require("@grpc/grpc-js");

const MODES = ["text/plain", "application/json", "image/png", "application/pdf"];
const SKILLS = [
  { id: "echo", name: "Echo", description: "Says what you say.", tags: ["text"] },
  { id: "count", name: "Count", description: "Counts, one chunk a number.", tags: ["numbers"] },
];
const VAULT = { id: "vault", name: "Vault", description: "Is for callers who are known.", tags: ["private"] };
const ENDS = ["completed", "failed", "canceled", "rejected", "input-required"];

const gates = new Map();
const gate = (name) => {
  if (!gates.has(name)) {
    let open;
    const opened = new Promise((resolve) => (open = resolve));
    gates.set(name, { open, opened });
  }
  return gates.get(name);
};

const textPart = (text) => ({ kind: "text", text });

class Turn {
  constructor(context, bus) {
    this.bus = bus;
    this.ids = { taskId: context.taskId, contextId: context.contextId };
    this.message = context.userMessage;
    this.text = this.message.parts.map((part) => part.text ?? "").join("");
  }

  begin(task) {
    const { taskId: id, contextId } = this.ids;
    const status = { state: "submitted", timestamp: new Date().toISOString() };
    this.bus.publish(task ?? { kind: "task", id, contextId, status, history: [this.message] });
  }

  enter(state, text) {
    const status = { state, timestamp: new Date().toISOString() };
    if (text) {
      status.message = { kind: "message", messageId: randomUUID(), role: "agent", parts: [textPart(text)], ...this.ids };
    }
    this.bus.publish({ kind: "status-update", ...this.ids, status, final: ENDS.includes(state) });
  }

  add(parts, { id = "answer", append = false, lastChunk = true } = {}) {
    this.bus.publish({ kind: "artifact-update", ...this.ids, artifact: { artifactId: id, parts }, append, lastChunk });
  }

  finish(...parts) {
    this.add(parts);
    this.enter("completed");
  }

  echo = () => this.finish(textPart(this.text.replace("echo ", "")));
  files = () => this.finish(...this.message.parts.slice(1));
  data = () => this.finish({ kind: "data", data: { got: this.message.parts[1].data } });
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

  async wait() {
    this.enter("working");
    await gate(this.ids.taskId).opened;
  }
}

const contexts = new Map();
const executor = {
  async execute(context, bus) {
    const turn = new Turn(context, bus);
    contexts.set(context.taskId, context.contextId);
    turn.begin(context.task);
    if (context.task) turn.finish(textPart(`A table for ${turn.text}.`));
    else await turn[turn.text.split(" ")[0]]();
    bus.finished();
  },
  async cancelTask(taskId, bus) {
    new Turn({ taskId, contextId: contexts.get(taskId), userMessage: { parts: [] } }, bus).enter("canceled");
    gate(taskId).open();
  },
};

// Everybody is known here: strangers get the public card where they ask for the extended one.
const userBuilder = async () => ({ isAuthenticated: true, userName: "tester" });

// Its log of refused calls would only fill the test's.
console.error = () => {};

const makeCard = (url, grpcUrl, skills) => ({
  name: "Scenario",
  description: "Does what the interop tests ask for.",
  version: "4.2.0",
  protocolVersion: "0.3.0",
  url: `${url}/rpc`,
  preferredTransport: "JSONRPC",
  additionalInterfaces: [
    { url: `${url}/rpc`, transport: "JSONRPC" },
    { url: `${url}/rest`, transport: "HTTP+JSON" },
    { url: grpcUrl, transport: "GRPC" },
  ],
  capabilities: { streaming: true, pushNotifications: true },
  supportsAuthenticatedExtendedCard: true,
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
      new InMemoryPushNotificationStore(), nowhere, makeCard(url, grpcUrl, [...SKILLS, VAULT]),
    );
    const options = { requestHandler, userBuilder };
    app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: requestHandler }));
    app.use("/rpc", jsonRpcHandler(options));
    app.use("/rest", restHandler(options));
    grpcServer.addService(A2AService, grpcService(options));
    console.log(JSON.stringify({ url }));
  });
});
