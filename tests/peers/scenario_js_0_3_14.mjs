// The scenario, played by @a2a-js/sdk 0.3.14, the last of its line: dialect 0.3 over JSON-RPC.
//
// Its REST and gRPC transports are left out: they lose `append` of chunks and the names of files.

import { randomUUID } from "node:crypto";
import { play, require, settings, watchedFetch } from "./scenario_steps.mjs";

const { ClientFactory, DefaultAgentCardResolver, JsonRpcTransportFactory } = require("a2a-js-sdk-0.3/client");

class SdkClient {
  constructor(url, token = null) {
    this.url = url;
    this.token = token;
  }

  async connected() {
    const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory({ fetchImpl: watchedFetch })] });
    this.sdk = await factory.createFromUrl(this.url);
    return this;
  }

  known = () => new SdkClient(settings.guarded_url, settings.token).connected();
  stranger = () => new SdkClient(settings.guarded_url).connected();

  options({ signal, after } = {}) {
    const serviceParameters = this.token ? { Authorization: `Bearer ${this.token}` } : {};
    if (after) serviceParameters["Last-Event-ID"] = after;
    return { signal, serviceParameters };
  }

  async card() {
    return seenCard(await new DefaultAgentCardResolver().resolve(this.url));
  }

  async extendedCard() {
    return seenCard(await this.sdk.getAgentCard(this.options()));
  }

  async send(parts, { task, context, now = false, push } = {}) {
    const configuration = { acceptedOutputModes: [], blocking: !now, pushNotificationConfig: push };
    return seenTask(await this.sdk.sendMessage({ message: message(parts, task, context), configuration }, this.options()));
  }

  async *stream(parts, signal) {
    const request = { message: message(parts) };
    for await (const event of this.sdk.sendMessageStream(request, this.options({ signal }))) yield seenEvent(event);
  }

  async *subscribe(id, after) {
    for await (const event of this.sdk.resubscribeTask({ id }, this.options({ after }))) yield seenEvent(event);
  }

  get = async (id, historyLength) => seenTask(await this.sdk.getTask({ id, historyLength }, this.options()));
  cancel = async (id) => seenTask(await this.sdk.cancelTask({ id }, this.options()));

  async createPush(taskId, pushNotificationConfig) {
    const config = { taskId, pushNotificationConfig };
    return seenPush(await this.sdk.setTaskPushNotificationConfig(config, this.options()));
  }

  async getPush(id, configId) {
    const request = { id, pushNotificationConfigId: configId ?? undefined };
    return seenPush(await this.sdk.getTaskPushNotificationConfig(request, this.options()));
  }

  listPush = async (id) => (await this.sdk.listTaskPushNotificationConfig({ id }, this.options())).map(seenPush);

  deletePush = (id, pushNotificationConfigId) =>
    this.sdk.deleteTaskPushNotificationConfig({ id, pushNotificationConfigId }, this.options());

  // What a stream reports is only in words.
  sight = ({ message, errorResponse }) =>
    errorResponse?.error.code ?? (Number(/\(Code: (-\d+)\)/.exec(message)?.[1]) || message);
}

const message = (parts, task, contextId) => ({
  kind: "message",
  messageId: randomUUID(),
  role: "user",
  parts: parts.map(partToSend),
  taskId: task?.id,
  contextId: task?.context ?? contextId,
});

function partToSend({ text, data, raw, url, name, type }) {
  if (text !== undefined) return { kind: "text", text };
  if (data !== undefined) return { kind: "data", data };
  return { kind: "file", file: { name, mimeType: type, ...(raw === undefined ? { uri: url } : { bytes: raw }) } };
}

function seenPart(part) {
  if (part.kind !== "file") return { [part.kind]: part[part.kind] };
  const { bytes, uri, name, mimeType } = part.file;
  return { ...(bytes === undefined ? { url: uri } : { raw: bytes }), name, type: mimeType };
}

const seenParts = (artifact) => artifact.parts.map(seenPart);
const seenText = (said) => (said?.parts ?? []).map((part) => part.text ?? "").join("");

const seenTask = (task) => ({
  id: task.id,
  context: task.contextId,
  state: task.status.state,
  said: seenText(task.status.message),
  parts: (task.artifacts ?? []).flatMap(seenParts),
  history: (task.history ?? []).map(seenText),
});

function seenEvent(event) {
  switch (event.kind) {
    case "task":
      return { task: seenTask(event) };
    case "status-update":
      return { state: event.status.state, said: seenText(event.status.message), final: event.final };
    case "artifact-update":
      return { parts: seenParts(event.artifact), append: event.append ?? false };
    default:
      throw new Error(`No ${event.kind} was expected`);
  }
}

const seenCard = (card) => ({
  name: card.name,
  version: card.version,
  skills: card.skills.map((skill) => skill.id),
  streaming: card.capabilities.streaming,
  push: card.capabilities.pushNotifications,
});

const seenPush = ({ pushNotificationConfig: { id, url, token } }) => ({ id, url, token });

await play(await new SdkClient(settings.url).connected(), ["list_tasks"]);
