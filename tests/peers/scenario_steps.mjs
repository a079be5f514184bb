// The shared scenario, for clients written in JavaScript. `scenario_steps.py` is the same in Python and says what
// parts, tasks and events look like here; the table in `tests/interop/scenario.py` has what each step should see.

import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

// The packages are those of the directory in which the test starts this process: the peer's own environment.
export const require = createRequire(`${process.cwd()}/`);

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x00, 0xff]).toString("base64");
const FILES = [
  { text: "files" },
  { raw: PNG, name: "soup.png", type: "image/png" },
  { url: "https://files.example/menu.pdf", name: "menu.pdf", type: "application/pdf" },
];
const DATA = { guests: 2, vegan: true, ratio: 0.5, note: null, dishes: ["soup", { name: "crêpe" }] };
const HOOK = { url: "https://hooks.example/a2a", token: "token-of-the-test" };
const STEP_MILLISECONDS = 15_000; // a step takes milliseconds; a machine under load may need a hundred times that

const say = (text) => [{ text }];
const outcome = ({ state, said, parts }) => ({ state, said, parts });
const textOf = (parts) => parts.map((part) => part.text).join("");

/** What a reader of a stream knows at any time. */
class Fold {
  taskId = null;
  kinds = [];
  states = [];
  chunks = [];
  parts = [];
  final = null;

  add(event) {
    if (event.task) {
      this.kinds.push("task");
      this.taskId = event.task.id;
      this.parts = [...event.task.parts];
      this.enter(event.task.state);
    } else if (event.parts) {
      this.kinds.push("chunk");
      this.chunks.push(event.parts);
      this.parts = [...(event.append ? this.parts : []), ...event.parts];
    } else {
      this.kinds.push("status");
      this.final = event.final;
      this.enter(event.state);
    }
  }

  enter(state) {
    if (this.states.at(-1) !== state) this.states.push(state);
  }

  get text() {
    return textOf(this.parts);
  }
}

async function seenError(client, work) {
  let result;
  try {
    result = await work;
  } catch (error) {
    return client.sight(error);
  }
  return { "no error": result.state ? outcome(result) : result };
}

async function drain(events) {
  const all = [];
  for await (const event of events) all.push(event);
  return all;
}

/** Follow a stream until three numbers have come, and break the connection. */
async function leave(client, text, fold) {
  const breaking = new AbortController();
  try {
    for await (const event of client.stream(say(text), breaking.signal)) {
      fold.add(event);
      if (fold.text === "1 2 3 ") breaking.abort();
    }
  } catch (error) {
    if (!breaking.signal.aborted) throw error;
  }
}

let lastId = null;

/** `fetch`, with an eye on the ids of SSE frames, which the SDK does not show. */
export async function watchedFetch(url, init) {
  const response = await fetch(url, init);
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
  const decoder = new TextDecoder();
  let text = "";
  const watch = new TransformStream({
    transform(bytes, out) {
      text += decoder.decode(bytes, { stream: true }); // an id may come in two pieces
      for (const [, id] of text.matchAll(/^id: (.+)\n/gm)) lastId = id;
      out.enqueue(bytes);
    },
  });
  return new Response(response.body.pipeThrough(watch), response);
}

const STEPS = {
  card: (client) => client.card(),

  send: async (client) => outcome(await client.send(say("echo hello"))),

  async get(client) {
    const sent = await client.send(say("echo again"));
    const task = await client.get(sent.id, 1);
    return { ...outcome(task), same: task.id === sent.id, history: task.history };
  },

  async multi_turn(client) {
    const asked = await client.send(say("ask"));
    const answered = await client.send(say("four"), { task: asked });
    const same = asked.id === answered.id && asked.context === answered.context;
    return { asked: outcome(asked), answered: outcome(answered), same };
  },

  async stream(client) {
    const fold = new Fold();
    for await (const event of client.stream(say("count 3"))) fold.add(event);
    return { first: fold.kinds[0], states: fold.states, chunks: fold.chunks, text: fold.text, final: fold.final };
  },

  async stream_asks(client) {
    const fold = new Fold();
    for await (const event of client.stream(say("ask"))) fold.add(event);
    return { states: fold.states, final: fold.final };
  },

  async resubscribe(client) {
    const gate = randomUUID();
    const before = new Fold();
    const after = new Fold();
    await leave(client, `count 6 pausing after 3 at ${gate}`, before);
    for await (const event of client.subscribe(before.taskId)) {
      if (after.kinds.length === 0) await client.send(say(`open ${gate}`)); // from now on we are subscribed
      after.add(event);
    }
    const task = await client.get(before.taskId);
    return {
      before: before.text,
      first: after.kinds[0],
      new: after.chunks.flat().map((part) => part.text).slice(-3),
      after: after.text,
      states: after.states.slice(-1),
      final: after.final,
      kept: textOf(task.parts),
    };
  },

  async resume(client) {
    const gate = randomUUID();
    const before = new Fold();
    await leave(client, `count 6 pausing after 3 at ${gate}`, before);
    const last = lastId;
    await client.send(say(`open ${gate}`));
    const [rest, again] = [new Fold(), new Fold()];
    for (const fold of [rest, again]) {
      for await (const event of client.subscribe(before.taskId, last)) fold.add(event);
    }
    const same = JSON.stringify(rest) === JSON.stringify(again);
    return { kinds: rest.kinds, rest: rest.text, states: rest.states, same };
  },

  async subscribe_finished(client) {
    const done = await client.send(say("echo over"));
    const fold = new Fold();
    try {
      for await (const event of client.subscribe(done.id)) fold.add(event);
    } catch (error) {
      return { error: client.sight(error) };
    }
    return { kinds: fold.kinds, states: fold.states, final: fold.final };
  },

  async cancel(client) {
    const started = await client.send(say("wait"), { now: true });
    const canceled = await client.cancel(started.id);
    const task = await client.get(started.id);
    return {
      started: ["submitted", "working"].includes(started.state),
      state: canceled.state,
      kept: task.state,
    };
  },

  async list_tasks(client) {
    const first = await client.send(say("echo one"));
    for (const text of ["echo two", "echo three"]) await client.send(say(text), { context: first.context });
    const pages = [];
    let page = { next: "" };
    do {
      page = await client.listTasks(first.context, 2, page.next);
      pages.push(page.tasks.map((task) => task.state));
    } while (page.next);
    return { pages, total: page.total, artifacts: page.tasks.flatMap((task) => task.parts) };
  },

  async push(client) {
    const started = await client.send(say("wait"), { now: true });
    const created = await client.createPush(started.id, { id: "hook-1", ...HOOK });
    const got = await client.getPush(started.id, "hook-1");
    const listed = await client.listPush(started.id);
    await client.deletePush(started.id, "hook-1");
    const left = await client.listPush(started.id);
    await client.cancel(started.id);
    return { created, got, listed, left };
  },

  async push_unnamed(client) {
    const asked = await client.send(say("ask"), { push: HOOK });
    const got = await client.getPush(asked.id, null);
    return { ...got, id: got.id === asked.id ? "the task's" : got.id };
  },

  files: async (client) => outcome(await client.send(FILES)),

  data: async (client) => outcome(await client.send([...say("data"), { data: DATA }])),

  async endings(client) {
    return { fail: outcome(await client.send(say("fail"))), reject: outcome(await client.send(say("reject"))) };
  },

  async errors(client) {
    const done = await client.send(say("echo done"));
    const video = { raw: PNG, name: "a.mp4", type: "video/mp4" };
    return {
      "unknown task": await seenError(client, client.get("no-such-task")),
      "cancel unknown": await seenError(client, client.cancel("no-such-task")),
      "cancel finished": await seenError(client, client.cancel(done.id)),
      "send to finished": await seenError(client, client.send(say("echo more"), { task: done })),
      "wrong content": await seenError(client, client.send([...say("files"), video])),
      "bad params": await seenError(client, client.send([])),
      "stream bad params": await seenError(client, drain(client.stream([]))),
      "subscribe unknown": await seenError(client, drain(client.subscribe("no-such-task"))),
      "unknown webhook": await seenError(client, client.getPush(done.id, "no-such-hook")),
    };
  },

  async authenticated(client) {
    const known = await client.known();
    const stranger = await client.stranger();
    return {
      known: outcome(await known.send(say("echo secret"))),
      stranger: await seenError(client, stranger.send(say("echo secret"))),
      stream: await seenError(client, drain(stranger.stream(say("echo secret")))),
    };
  },

  async extended_card(client) {
    const known = await client.known();
    const stranger = await client.stranger();
    return {
      public: (await client.card()).skills,
      known: (await known.extendedCard()).skills,
      stranger: await seenError(client, stranger.extendedCard()),
    };
  },
};

/** Take every step that the client's dialect has, and print what was seen, one JSON line a step. */
export async function play(client, lacks = []) {
  for (const [name, step] of Object.entries(STEPS)) {
    if (lacks.includes(name)) continue;
    let line;
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("this step took too long")), STEP_MILLISECONDS);
    });
    try {
      line = { step: name, seen: await Promise.race([step(client), late]) };
    } catch (error) {
      line = { step: name, broke: error?.stack ?? String(error) };
    }
    clearTimeout(timer);
    console.log(JSON.stringify(line, (_, value) => (value === undefined ? null : value)));
  }
  process.exit(0); // idle connections would keep the process for seconds
}

/** What the test says: `url`, `guarded_url`, `token` and `binding`. */
export const settings = JSON.parse(process.argv[2]);
