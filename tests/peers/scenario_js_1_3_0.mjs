// The scenario, played by @a2a-js/sdk 1.3.0: dialect 1.0 on all three bindings.

import { randomUUID } from "node:crypto";
import { play, require, settings, watchedFetch } from "./scenario_steps.mjs";

const { ClientFactory, ClientFactoryOptions, DefaultAgentCardResolver, JsonRpcTransportFactory, RestTransportFactory } =
  require("@a2a-js/sdk/client");
const { GrpcTransportFactory } = require("@a2a-js/sdk/client/grpc");

const BINDINGS = { jsonrpc: "JSONRPC", rest: "HTTP+JSON", grpc: "GRPC" };
const STATES = [
  "unspecified", "submitted", "working", "completed", "failed", "canceled", "input-required", "rejected", "auth-required",
];
const ROLE_USER = 1;

class SdkClient {
  constructor(url, token = null) {
    this.url = url;
    this.token = token;
  }

  async connected() {
    const transports = [
      new JsonRpcTransportFactory({ fetchImpl: watchedFetch }),
      new RestTransportFactory({ fetchImpl: watchedFetch }),
      new GrpcTransportFactory(),
    ];
    const wanted = BINDINGS[settings.binding];
    const factory = new ClientFactory(
      ClientFactoryOptions.createFrom(
        { transports: transports.filter((transport) => transport.protocolName === wanted) },
        { preferredTransports: [wanted] },
      ),
    );
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

  async send(parts, { task, context = "", now = false, push } = {}) {
    const configuration = {
      acceptedOutputModes: [],
      returnImmediately: now,
      taskPushNotificationConfig: push && pushConfig("", push),
    };
    const request = { tenant: "", message: message(parts, task, context), configuration };
    return seenTask(await this.sdk.sendMessage(request, this.options()));
  }

  async *stream(parts, signal) {
    const request = { tenant: "", message: message(parts, undefined, "") };
    for await (const event of this.sdk.sendMessageStream(request, this.options({ signal }))) yield seenEvent(event);
  }

  async *subscribe(id, after) {
    for await (const event of this.sdk.resubscribeTask({ tenant: "", id }, this.options({ after }))) {
      yield seenEvent(event);
    }
  }

  get = async (id, historyLength) => seenTask(await this.sdk.getTask({ tenant: "", id, historyLength }, this.options()));
  cancel = async (id) => seenTask(await this.sdk.cancelTask({ tenant: "", id }, this.options()));

  async listTasks(contextId, pageSize, pageToken) {
    const request = { tenant: "", contextId, status: 0, pageSize, pageToken, statusTimestampAfter: undefined };
    const page = await this.sdk.listTasks(request, this.options());
    return { tasks: page.tasks.map(seenTask), next: page.nextPageToken, total: page.totalSize };
  }

  async createPush(taskId, config) {
    return seenPush(await this.sdk.createTaskPushNotificationConfig(pushConfig(taskId, config), this.options()));
  }

  async getPush(taskId, id) {
    const request = { tenant: "", taskId, id: id ?? taskId };
    return seenPush(await this.sdk.getTaskPushNotificationConfig(request, this.options()));
  }

  async listPush(taskId) {
    const request = { tenant: "", taskId, pageSize: 0, pageToken: "" };
    return (await this.sdk.listTaskPushNotificationConfig(request, this.options())).configs.map(seenPush);
  }

  deletePush = (taskId, id) => this.sdk.deleteTaskPushNotificationConfig({ tenant: "", taskId, id }, this.options());

  sight({ name, statusCode, status, envelopeCode }) {
    const isUnknown = ["A2AError", "JsonRpcTransportError"].includes(name);
    return isUnknown ? statusCode ?? status ?? envelopeCode : name;
  }
}

const pushConfig = (taskId, { id = "", url, token }) => ({ tenant: "", id, taskId, url, token, authentication: undefined });

const message = (parts, task, contextId) => ({
  messageId: randomUUID(),
  role: ROLE_USER,
  parts: parts.map(partToSend),
  taskId: task?.id ?? "",
  contextId: task?.context ?? contextId,
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
});

function partToSend(part) {
  const about = { metadata: undefined, filename: part.name ?? "", mediaType: part.type ?? "" };
  const [[$case, given]] = Object.entries(part);
  return { content: { $case, value: $case === "raw" ? Buffer.from(given, "base64") : given }, ...about };
}

function seenPart({ content, filename, mediaType }) {
  switch (content.$case) {
    case "raw":
      return { raw: Buffer.from(content.value).toString("base64"), name: filename, type: mediaType };
    case "url":
      return { url: content.value, name: filename, type: mediaType };
    default:
      return { [content.$case]: content.value };
  }
}

const seenParts = (artifact) => artifact.parts.map(seenPart);
const seenText = (said) =>
  (said?.parts ?? []).map(({ content }) => (content.$case === "text" ? content.value : "")).join("");

const seenTask = (task) => ({
  id: task.id,
  context: task.contextId,
  state: STATES[task.status.state],
  said: seenText(task.status.message),
  parts: task.artifacts.flatMap(seenParts),
  history: task.history.map(seenText),
});

function seenEvent({ payload: { $case, value } }) {
  switch ($case) {
    case "task":
      return { task: seenTask(value) };
    case "statusUpdate":
      return { state: STATES[value.status.state], said: seenText(value.status.message), final: null };
    case "artifactUpdate":
      return { parts: seenParts(value.artifact), append: value.append };
    default:
      throw new Error(`No ${$case} was expected`);
  }
}

const seenCard = (card) => ({
  name: card.name,
  version: card.version,
  skills: card.skills.map((skill) => skill.id),
  streaming: card.capabilities.streaming,
  push: card.capabilities.pushNotifications,
});

const seenPush = ({ id, url, token }) => ({ id, url, token });

// Messages of gRPC have no ids.
await play(await new SdkClient(settings.url).connected(), settings.binding === "grpc" ? ["resume"] : []);
