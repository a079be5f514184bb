// The scenario, played by the remote agent of Mastra; `steps.py` says what the steps are. Mastra makes text of every
// message, so files and data cannot be sent.

import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";

// Mastra is where this process was started, not beside this file.
const require = createRequire(`${process.cwd()}/`);
const { A2AAgent } = require("@mastra/core/a2a");

const given = JSON.parse(process.argv[2]);
const remote = (url, token) =>
  new A2AAgent({
    url,
    protocolVersion: given.how === "1.0" ? "1.0" : "0.3",
    retries: 0,
    headers: token ? { authorization: `Bearer ${token}` } : {},
  });

const seen = (result) => {
  const shown = { text: result.text, finish: result.finishReason };
  if (result.task) shown.state = String(result.task.status.state);
  return shown;
};

const outcome = async (work) => {
  try {
    return seen(await work());
  } catch (error) {
    return { raised: error.constructor.name, about: String(error.message).split("\n")[0].slice(0, 200) };
  }
};

const steps = {
  card: async () => {
    const card = await remote(given.url).getAgentCard();
    return { name: card.name, version: card.version, skills: card.skills.map((skill) => skill.id) };
  },
  send: async () => seen(await remote(given.url).generate("echo hello")),
  conversation: async () => {
    const agent = remote(given.url);
    return [seen(await agent.generate("echo one")), seen(await agent.generate("echo two"))];
  },
  multi_turn: async () => {
    const agent = remote(given.url);
    const runId = randomUUID();
    const asked = await agent.generate("ask", { runId });
    const answered = await agent.resumeGenerate("four", { runId });
    return [seen(asked), seen(answered)];
  },
  stream: async () => {
    const result = await remote(given.url).stream("count 3");
    const pieces = [];
    for await (const chunk of result.fullStream) if (chunk.type === "text-delta") pieces.push(chunk.payload.text);
    return { pieces };
  },
  whole: async () => seen(await remote(given.url).generate("count 3")),
  endings: async () => ({
    fail: await outcome(() => remote(given.url).generate("fail")),
    reject: await outcome(() => remote(given.url).generate("reject")),
  }),
  authenticated: async () => ({
    known: await outcome(() => remote(given.guarded_url, given.token).generate("echo secret")),
    stranger: await outcome(() => remote(given.guarded_url).generate("echo secret")),
  }),
};

for (const [step, take] of Object.entries(steps)) {
  let line;
  try {
    line = { step, seen: await take() };
  } catch (error) {
    line = { step, broke: error.stack };
  }
  console.log(JSON.stringify(line));
}
process.exit(0);
