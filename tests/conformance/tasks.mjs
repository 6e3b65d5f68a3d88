// The tasks extension of 2026-07-28, which the library of server.mjs does not know: its tools, and the answers to what is about them. The names and texts
// are those of the scenarios.
//
// A tool is a function. If its client knows tasks, a task runs it to its end; otherwise a call waits for it, or is refused.

import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";

export const EXTENSION = "io.modelcontextprotocol/tasks";

class RpcError extends Error {
  constructor(code, message, data, status = 200) {
    super(message);
    Object.assign(this, { code, data, status });
  }
}
const missingCapability = () =>
  new RpcError(-32021, "Missing required client capability", { requiredCapabilities: { extensions: { [EXTENSION]: {} } } }, 400);

const text = (text) => ({ content: [{ type: "text", text }] });
const elicit = (message, properties) => ({
  method: "elicitation/create",
  params: { mode: "form", message, requestedSchema: { type: "object", properties, required: Object.keys(properties) } },
});
const object = (properties) => ({ type: "object", properties });
const string = { type: "string" };
const CONFIRM = { confirm: { type: "boolean" } };

// `makesTask`: never, if the client knows tasks, or always. `run` is given the arguments and what it needs of its task: a signal that it is cancelled, a way
// to ask, and the call that made it.
export const tools = {
  greet: { schema: object({ name: string }), makesTask: "never", run: ({ name }) => text(`Hello, ${name}!`) },
  slow_compute: {
    schema: object({ seconds: { type: "number" }, label: string }),
    makesTask: "if known",
    run: async ({ seconds, label }, { signal }) => {
      await delay(1000 * seconds, undefined, { signal });
      return text(`Computed ${label} in ${seconds} s.`);
    },
  },
  failing_job: {
    makesTask: "always",
    run: async (_, { signal }) => {
      await delay(1000, undefined, { signal });
      return { ...text("The job has failed."), isError: true };
    },
  },
  protocol_error_job: {
    makesTask: "always",
    run: () => {
      throw new RpcError(-32603, "The job has crashed.");
    },
  },
  confirm_delete: {
    schema: object({ filename: string }),
    makesTask: "always",
    run: async ({ filename }, { ask }) => {
      const { action } = await ask(elicit(`Delete ${filename}?`, CONFIRM));
      return text(`${action === "accept" ? "Deleted" : "Kept"} ${filename}.`);
    },
  },
  multi_input: {
    makesTask: "always",
    run: async (_, { ask }) => {
      const answers = await Promise.all(["first", "second"].map((which) => ask(elicit(`The ${which} name?`, { name: string }))));
      return text(`Names: ${answers.map(({ content }) => content?.name).join(", ")}`);
    },
  },
  // Asks before there is a task, and makes one when it was answered.
  test_tool_with_task: {
    makesTask: "always",
    before: ({ inputResponses }) =>
      inputResponses?.user_name ? undefined : { resultType: "input_required", inputRequests: { user_name: elicit("What is your name?", { name: string }) } },
    run: async (_, { params }) => text(`Hello, ${params.inputResponses.user_name.content?.name}!`),
  },
};

const tasks = new Map();

// A task under way. It is in the map before anybody hears of it.
function start(tool, params) {
  const now = new Date().toISOString();
  const task = { taskId: randomUUID(), status: "working", createdAt: now, lastUpdatedAt: now, ttlMs: 60_000, pollIntervalMs: 100 };
  const stop = new AbortController();
  const waiting = new Map();
  const change = (members) => {
    if (!["completed", "failed", "cancelled"].includes(task.status)) Object.assign(task, members, { lastUpdatedAt: new Date().toISOString() });
  };
  const ask = (request) =>
    new Promise((resolve, reject) => {
      const key = randomUUID();
      waiting.set(key, { request, resolve: (answer) => (waiting.delete(key), change({ status: waiting.size ? "input_required" : "working" }), resolve(answer)) });
      change({ status: "input_required" });
      stop.signal.addEventListener("abort", reject);
    });
  stop.signal.addEventListener("abort", () => (waiting.clear(), change({ status: "cancelled" })));
  tasks.set(task.taskId, { task, stop, waiting });
  (async () => tool.run(params.arguments ?? {}, { signal: stop.signal, ask, params }))().then(
    (result) => change({ status: "completed", result: { resultType: "complete", ...result } }),
    ({ code = -32603, message }) => change({ status: "failed", error: { code, message: String(message) } }),
  );
  return task;
}

function find({ taskId }) {
  const found = tasks.get(taskId);
  if (!found) throw new RpcError(-32602, "Task not found");
  return found;
}

const methods = {
  "tools/call": async (params, knowsTasks) => {
    const tool = tools[params.name];
    if (tool.makesTask === "always" && !knowsTasks) throw missingCapability();
    const question = tool.before?.(params);
    if (question) return question;
    if (tool.makesTask === "never" || !knowsTasks) return tool.run(params.arguments ?? {}, {});
    return { resultType: "task", ...start(tool, params) };
  },
  "tasks/get": (params) => {
    const { task, waiting } = find(params);
    const inputRequests = Object.fromEntries([...waiting].map(([key, { request }]) => [key, request]));
    return task.status === "input_required" ? { ...task, inputRequests } : task;
  },
  "tasks/update": (params) => {
    const { waiting } = find(params);
    for (const [key, answer] of Object.entries(params.inputResponses ?? {})) waiting.get(key)?.resolve(answer);
    return {};
  },
  "tasks/cancel": (params) => (find(params).stop.abort(), {}),
};

// Whether a message is for this file.
export const isAboutTasks = ({ method, params } = {}) => method in methods && (method !== "tools/call" || params?.name in tools);

// Headers repeat what the body says, so that whoever routes need not read it.
function checkHeaders(headers, { method, params }) {
  const name = method === "tools/call" ? params.name : params.taskId;
  const said = { "mcp-protocol-version": params._meta["io.modelcontextprotocol/protocolVersion"], "mcp-method": method, "mcp-name": name };
  for (const [header, value] of Object.entries(said)) {
    if (headers[header] !== value) throw new RpcError(-32020, `Header mismatch: ${header}`, undefined, 400);
  }
}

async function result(headers, message) {
  checkHeaders(headers, message);
  const { method, params } = message;
  const knowsTasks = params._meta["io.modelcontextprotocol/clientCapabilities"]?.extensions?.[EXTENSION] !== undefined;
  if (method !== "tools/call" && !knowsTasks) throw missingCapability();
  return { resultType: "complete", ...(await methods[method](params, knowsTasks)) };
}

// The status and the body of the answer to a modern request.
export const answer = (headers, message) =>
  result(headers, message).then(
    (result) => [200, { jsonrpc: "2.0", id: message.id, result }],
    ({ code = -32603, message: text, data, status = 500 }) => [status, { jsonrpc: "2.0", id: message.id, error: { code, message: text, data } }],
  );
