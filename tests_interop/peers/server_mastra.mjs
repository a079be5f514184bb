// An agent of Mastra with a scripted model, served by its adapter for Hono. Prints where its card is.

import { createRequire } from "node:module";

// Mastra is where this process was started, not beside this file.
const require = createRequire(`${process.cwd()}/`);
const { serve } = require("@hono/node-server");
const { Agent } = require("@mastra/core/agent");
const { Mastra } = require("@mastra/core/mastra");
const { MastraServer } = require("@mastra/hono");
const { InMemoryTaskStore } = require("@mastra/server/a2a/store");
const { Hono } = require("hono");

const QUESTION = "For how many?";
const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };

const described = (part) => `${part.type} ${part.mediaType ?? ""} ${part.data?.length ?? ""}`.trim();

/** What the model says to the last message of a prompt, in pieces; null if it never answers. */
const piecesOf = (prompt) => {
  const last = prompt.filter((message) => message.role === "user").at(-1);
  const text = last.content.find((part) => part.type === "text")?.text ?? "";
  const [word, rest] = text.split(" ");
  if (word === "echo") return [text.slice(5)];
  if (word === "count") return Array.from({ length: Number(rest) }, (_, index) => `${index + 1} `);
  if (word === "ask") return [QUESTION];
  if (word === "files" || word === "data") return [last.content.filter((part) => part.text !== text).map(described).join("; ")];
  if (word === "fail") throw new Error("The oven is broken.");
  if (word === "wait") return null;
  return [`got ${text}`];
};

const script = {
  specificationVersion: "v2",
  provider: "scripted",
  modelId: "scripted",
  supportedUrls: {},
  async doGenerate({ prompt }) {
    const pieces = piecesOf(prompt) ?? (await new Promise(() => {}));
    return { content: [{ type: "text", text: pieces.join("") }], finishReason: "stop", usage, warnings: [] };
  },
  async doStream({ prompt }) {
    const pieces = piecesOf(prompt);
    const stream = new ReadableStream({
      async start(controller) {
        controller.enqueue({ type: "stream-start", warnings: [] });
        if (pieces === null) return; // never
        controller.enqueue({ type: "text-start", id: "1" });
        for (const delta of pieces) controller.enqueue({ type: "text-delta", id: "1", delta });
        controller.enqueue({ type: "text-end", id: "1" });
        controller.enqueue({ type: "finish", finishReason: "stop", usage });
        controller.close();
      },
    });
    return { stream };
  },
};

const agent = new Agent({
  id: "scenario",
  name: "Scenario",
  description: "Does what the interop tests ask for.",
  instructions: "Obey.",
  model: script,
  maxRetries: 0,
});
const mastra = new Mastra({ agents: { scenario: agent }, logger: false });
const app = new Hono();
const server = new MastraServer({ app, mastra, taskStore: new InMemoryTaskStore() });
await server.init();
serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" }, ({ port }) => {
  const url = `http://127.0.0.1:${port}/api/.well-known/scenario/agent-card.json`;
  console.log(JSON.stringify({ url }));
});
