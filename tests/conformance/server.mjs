// A server with everything the official conformance scenarios ask a server for, in both eras on one endpoint.
//
//     server.mjs FILE        takes a free port and writes its URL to the file
//
// Modern requests are stateless; legacy ones have sessions with resumable streams. What a tool wants to know from its user it asks for with
// `inputRequired`: the library makes that a result in the modern era and server requests in the legacy one, so each tool is written once. The names and
// texts are those of the scenarios.

import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { NodeStreamableHTTPServerTransport, localhostHostValidation, localhostOriginValidation, toNodeHandler, toWebRequest } from "@modelcontextprotocol/node";
import {
  MissingRequiredClientCapabilityError, ProtocolError, Server, acceptedContent, createMcpHandler, createRequestStateCodec, inputRequired, inputResponse,
  isInitializeRequest, isLegacyRequest,
} from "@modelcontextprotocol/server";
import * as tasks from "./tasks.mjs";

// The smallest of their kinds: one red pixel, and a wave without samples.
const PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

const text = (text) => ({ content: [{ type: "text", text }] });
const image = { type: "image", data: PIXEL, mimeType: "image/png" };
const object = (properties = {}, required = []) => ({ type: "object", properties, required });
const string = { type: "string" };
const elicit = (message, properties, required = Object.keys(properties)) =>
  inputRequired.elicit({ message, requestedSchema: object(properties, required) });
const sample = (prompt, maxTokens) =>
  inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text: prompt } }], maxTokens });

// What changes while the server runs, and whom to tell.
const states = createRequestStateCodec({ key: randomUUID() + randomUUID() });
const sessions = new Map();
const mutable = { tools: false, prompts: false };

function changed(what) {
  mutable[what] = !mutable[what];
  modern.notify[`${what}Changed`]();
  for (const { server } of sessions.values()) {
    // A session that nobody listens to cannot be told.
    (what === "tools" ? server.sendToolListChanged() : server.sendPromptListChanged()).catch(() => {});
  }
  return text(`The ${what} have changed.`);
}

// A question to the user: asked until there is an answer with this key, then `done` with it.
async function asking(context, key, request, done) {
  const answer = inputResponse(context.mcpReq.inputResponses, key);
  return answer.kind === "missing" ? inputRequired({ inputRequests: { [key]: request } }) : done(answer);
}

const outcome = (answer) => ({ action: answer.action ?? answer.kind, content: answer.content ?? {} });
const told = (start) => (answer) => text(`${start}action=${outcome(answer).action}, content=${JSON.stringify(outcome(answer).content)}`);
const capabilities = (context, server) => context.mcpReq.envelope?.["io.modelcontextprotocol/clientCapabilities"] ?? server.getClientCapabilities() ?? {};

const options = (names) => names.map(([value, title]) => ({ const: value, title }));
const SEVERAL = { user_name: elicit("What is your name?", { name: string }), greeting: sample("Generate a greeting", 50), client_roots: inputRequired.listRoots() };

const tools = {
  test_simple_text: { run: () => text("This is a simple text response for testing.") },
  test_image_content: { run: () => ({ content: [image] }) },
  test_audio_content: { run: () => ({ content: [{ type: "audio", data: SILENCE, mimeType: "audio/wav" }] }) },
  test_embedded_resource: {
    run: () => ({ content: [{ type: "resource", resource: { uri: "test://embedded-resource", mimeType: "text/plain", text: "This is an embedded resource content." } }] }),
  },
  test_multiple_content_types: {
    run: () => ({
      content: [
        { type: "text", text: "Multiple content types test:" },
        image,
        { type: "resource", resource: { uri: "test://mixed-content-resource", mimeType: "application/json", text: '{"test":"data","value":123}' } },
      ],
    }),
  },
  test_error_handling: { run: () => ({ isError: true, ...text("This tool intentionally returns an error for testing") }) },
  test_tool_with_logging: {
    run: async (_, { mcpReq }) => {
      await mcpReq.log("info", "Tool execution started");
      await delay(50);
      await mcpReq.log("info", "Tool processing data");
      await delay(50);
      await mcpReq.log("info", "Tool execution completed");
      return text("Tool with logging executed successfully");
    },
  },
  test_tool_with_progress: {
    run: async (_, { mcpReq }) => {
      const progressToken = mcpReq._meta?.progressToken;
      for (const progress of [0, 50, 100]) {
        if (progressToken !== undefined) await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
        await delay(50);
      }
      return text("Tool with progress executed successfully");
    },
  },
  test_reconnection: {
    run: async (_, { http }) => {
      http?.closeSSE?.();
      await delay(100);
      return text("Reconnection test completed successfully");
    },
  },

  // Questions to the user.
  test_sampling: {
    schema: object({ prompt: string }, ["prompt"]),
    run: ({ prompt }, context) => asking(context, "sample", sample(prompt, 100), (answer) => text(`LLM response: ${answer.result?.content?.text}`)),
  },
  test_elicitation: {
    schema: object({ message: string }, ["message"]),
    run: ({ message }, context) => {
      const fields = { username: { ...string, description: "User's response" }, email: { ...string, description: "User's email address" } };
      return asking(context, "user", elicit(message, fields), told("User response: "));
    },
  },
  test_elicitation_sep1034_defaults: {
    run: (_, context) => {
      const fields = {
        name: { ...string, default: "John Doe" },
        age: { type: "integer", default: 30 },
        score: { type: "number", default: 95.5 },
        status: { ...string, enum: ["active", "inactive", "pending"], default: "active" },
        verified: { type: "boolean", default: true },
      };
      return asking(context, "defaults", elicit("Please review the defaults", fields, []), told("Elicitation completed: "));
    },
  },
  test_elicitation_sep1330_enums: {
    run: (_, context) => {
      const plain = ["option1", "option2", "option3"];
      const fields = {
        untitledSingle: { ...string, enum: plain },
        titledSingle: { ...string, oneOf: options([["value1", "First Option"], ["value2", "Second Option"], ["value3", "Third Option"]]) },
        legacyEnum: { ...string, enum: ["opt1", "opt2", "opt3"], enumNames: ["Option One", "Option Two", "Option Three"] },
        untitledMulti: { type: "array", items: { ...string, enum: plain } },
        titledMulti: { type: "array", items: { anyOf: options([["value1", "First Choice"], ["value2", "Second Choice"], ["value3", "Third Choice"]]) } },
      };
      return asking(context, "choices", elicit("Please choose", fields, []), told("Elicitation completed: "));
    },
  },
  test_streaming_elicitation: {
    run: async (_, context) => asking(context, "name", elicit("What is your name?", { name: string }), told("")),
  },
  test_input_required_result_elicitation: {
    run: (_, context) => {
      const answer = acceptedContent(context.mcpReq.inputResponses, "user_name");
      return typeof answer?.name === "string"
        ? text(`Hello, ${answer.name}!`)
        : inputRequired({ inputRequests: { user_name: elicit("What is your name?", { name: string }) } });
    },
  },
  test_input_required_result_sampling: {
    run: (_, context) =>
      asking(context, "capital_question", sample("What is the capital of France?", 100), (answer) => text(String(answer.result?.content?.text))),
  },
  test_input_required_result_list_roots: {
    run: (_, context) => asking(context, "client_roots", inputRequired.listRoots(), (answer) => text(`Roots: ${JSON.stringify(answer)}`)),
  },
  test_input_required_result_request_state: {
    run: async (_, { mcpReq }) =>
      mcpReq.requestState()?.step === "confirm" && acceptedContent(mcpReq.inputResponses, "confirm")
        ? text("state-ok")
        : inputRequired({ inputRequests: { confirm: elicit("Please confirm", { ok: { type: "boolean" } }) }, requestState: await states.mint({ step: "confirm" }) }),
  },
  test_input_required_result_tampered_state: {
    run: async (_, { mcpReq }) =>
      mcpReq.requestState()
        ? text("state-ok")
        : inputRequired({ inputRequests: { confirm: elicit("Please confirm", { ok: { type: "boolean" } }) }, requestState: await states.mint({ step: "sealed" }) }),
  },
  test_input_required_result_multiple_inputs: {
    run: async (_, { mcpReq }) =>
      mcpReq.requestState() && Object.keys(SEVERAL).every((key) => mcpReq.inputResponses?.[key])
        ? text(`Answered: ${Object.keys(SEVERAL).join(", ")}`)
        : inputRequired({ inputRequests: SEVERAL, requestState: await states.mint({ step: "several" }) }),
  },
  test_input_required_result_multi_round: {
    run: async (_, { mcpReq }) => {
      const state = mcpReq.requestState() ?? {};
      const name = state.name ?? acceptedContent(mcpReq.inputResponses, "step1")?.name;
      const color = acceptedContent(mcpReq.inputResponses, "step2")?.color;
      if (name && color) return text(`${name} likes ${color}.`);
      const [key, question] = name
        ? ["step2", elicit("Step 2: What is your favorite color?", { color: string })]
        : ["step1", elicit("Step 1: What is your name?", { name: string })];
      return inputRequired({ inputRequests: { [key]: question }, requestState: await states.mint({ name, round: key }) });
    },
  },
  test_input_required_result_capabilities: {
    run: (_, context, server) => {
      const can = capabilities(context, server);
      const requests = {};
      if (can.sampling) requests.sampled = sample("Say something", 10);
      if (can.elicitation) requests.elicited = elicit("Say something", { something: string });
      if (Object.keys(requests).every((key) => context.mcpReq.inputResponses?.[key])) return text("nothing to ask");
      return inputRequired({ inputRequests: requests });
    },
  },
  test_missing_capability: {
    run: (_, context, server) => {
      if (!capabilities(context, server).sampling) throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } });
      return text("the client can sample");
    },
  },

  // What the lists and the headers are tested with.
  test_logging_tool: { run: async (_, { mcpReq }) => (await mcpReq.log("info", "a line of the log"), text("logged, if that was asked for")) },
  test_trigger_tool_change: { run: () => changed("tools") },
  test_trigger_prompt_change: { run: () => changed("prompts") },
  test_header_parameter: {
    schema: object({ region: { ...string, "x-mcp-header": "Region" } }, ["region"]),
    run: ({ region }) => text(`region: ${region}`),
  },
  json_schema_2020_12_tool: {
    schema: {
      $schema: "https://json-schema.org/draft/2020-12/schema",
      type: "object",
      $defs: { address: { $anchor: "addressDef", type: "object", properties: { street: string, city: string } } },
      properties: {
        name: string,
        address: { $ref: "#/$defs/address" },
        contactMethod: { ...string, enum: ["phone", "email"] },
        phone: string,
        email: string,
      },
      allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
      if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
      then: { required: ["phone"] },
      else: { required: ["email"] },
      additionalProperties: false,
    },
    run: () => text("a valid contact"),
  },
};

const message = (content) => ({ role: "user", content });
const prompts = {
  test_simple_prompt: { run: () => ({ messages: [message({ type: "text", text: "This is a simple prompt for testing." })] }) },
  test_prompt_with_arguments: {
    arguments: ["arg1", "arg2"],
    run: ({ arg1, arg2 }) => ({ messages: [message({ type: "text", text: `Prompt with arguments: arg1='${arg1}', arg2='${arg2}'` })] }),
  },
  test_prompt_with_embedded_resource: {
    arguments: ["resourceUri"],
    run: ({ resourceUri }) => ({
      messages: [
        message({ type: "resource", resource: { uri: resourceUri, mimeType: "text/plain", text: "Embedded resource content for testing." } }),
        message({ type: "text", text: "Please process the embedded resource above." }),
      ],
    }),
  },
  test_prompt_with_image: { run: () => ({ messages: [message(image), message({ type: "text", text: "Please analyze the image above." })] }) },
  test_input_required_result_prompt: {
    run: (_, { mcpReq }) => {
      const answer = acceptedContent(mcpReq.inputResponses, "user_context");
      return answer
        ? { messages: [message({ type: "text", text: `In this context: ${answer.context}` })] }
        : inputRequired({ inputRequests: { user_context: elicit("What context should the prompt use?", { context: string }) } });
    },
  },
};

const resources = {
  "test://static-text": { mimeType: "text/plain", text: "This is the content of the static text resource." },
  "test://static-binary": { mimeType: "image/png", blob: PIXEL },
  "test://watched-resource": { mimeType: "text/plain", text: "A resource that can be subscribed to." },
};
const TEMPLATE = /^test:\/\/template\/([^/]+)\/data$/;

function contents(uri) {
  const id = TEMPLATE.exec(uri)?.[1];
  if (id) return { mimeType: "application/json", text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
  if (resources[uri]) return resources[uri];
  throw new ProtocolError(-32602, "Resource not found", { uri });
}

// The tools of the tasks extension belong to the modern era, and their calls are answered in tasks.mjs.
function server(era) {
  const server = new Server(
    { name: "transom-conformance", version: "1.0.0" },
    {
      capabilities: {
        tools: { listChanged: true }, prompts: { listChanged: true }, resources: { subscribe: true, listChanged: true }, completions: {}, logging: {},
        ...(era === "modern" && { extensions: { [tasks.EXTENSION]: {} } }),
      },
      requestState: { verify: states.verify },
    },
  );
  // A session outlives the changes.
  const offered = () => (mutable.tools ? { ...tools, test_tool_that_comes_and_goes: { run: () => text("here") } } : tools);
  server.setRequestHandler("tools/list", () => ({
    tools: Object.entries({ ...offered(), ...(era === "modern" && tasks.tools) }).map(([name, { schema = object() }]) => ({
      name, description: `The tool ${name} of the scenarios.`, inputSchema: schema,
    })),
  }));
  server.setRequestHandler("tools/call", ({ params }, context) => {
    const tool = offered()[params.name];
    if (!tool) throw new ProtocolError(-32602, `Unknown tool: ${params.name}`);
    return tool.run(params.arguments ?? {}, context, server);
  });
  server.setRequestHandler("prompts/list", () => {
    const names = Object.entries(prompts).map(([name, prompt]) => ({
      name,
      description: `The prompt ${name} of the scenarios.`,
      arguments: prompt.arguments?.map((name) => ({ name, description: `The argument ${name}.`, required: true })),
    }));
    return { prompts: mutable.prompts ? [...names, { name: "test_prompt_that_comes_and_goes", description: "Here now." }] : names };
  });
  server.setRequestHandler("prompts/get", ({ params }, context) => {
    const prompt = prompts[params.name];
    if (!prompt) throw new ProtocolError(-32602, `Unknown prompt: ${params.name}`);
    return prompt.run(params.arguments ?? {}, context);
  });
  server.setRequestHandler("resources/list", () => ({
    resources: Object.entries(resources).map(([uri, { mimeType }]) => ({ uri, name: uri.slice("test://".length), description: `The resource ${uri}.`, mimeType })),
  }));
  server.setRequestHandler("resources/templates/list", () => ({
    resourceTemplates: [{ uriTemplate: "test://template/{id}/data", name: "template", description: "A template.", mimeType: "application/json" }],
  }));
  server.setRequestHandler("resources/read", ({ params: { uri } }) => ({ contents: [{ uri, ...contents(uri) }] }));
  server.setRequestHandler("completion/complete", ({ params: { argument } }) => {
    const values = ["paris", "park", "party"].filter((value) => value.startsWith(argument.value));
    return { completion: { values, total: values.length, hasMore: false } };
  });
  return server;
}

// What a resumed stream has missed, for one session.
class Events {
  #events = [];
  async storeEvent(stream, message) {
    this.#events.push({ stream, message });
    return String(this.#events.length - 1);
  }
  async replayEventsAfter(last, { send }) {
    const { stream } = this.#events[Number(last)];
    for (const [id, event] of this.#events.entries()) {
      if (id > Number(last) && event.stream === stream && Object.keys(event.message).length > 0) await send(String(id), event.message);
    }
    return stream;
  }
}

async function legacy(request, response, body) {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known) return known.transport.handleRequest(request, response, body);
  if (request.headers["mcp-session-id"]) return void response.writeHead(404).end();
  if (!isInitializeRequest(body)) return void response.writeHead(400).end();
  const session = server("legacy");
  // Subscriptions belong to sessions; the modern era has none.
  for (const method of ["resources/subscribe", "resources/unsubscribe"]) session.setRequestHandler(method, () => ({}));
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: new Events(),
    retryInterval: 500,
    onsessioninitialized: (id) => void sessions.set(id, { server: session, transport }),
    onsessionclosed: (id) => void sessions.delete(id),
  });
  await session.connect(transport);
  return transport.handleRequest(request, response, body);
}

async function read(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    return JSON.parse(Buffer.concat(chunks));
  } catch {
    return undefined;
  }
}

// An argument marked `x-mcp-header` must be in its header too. The library checks that only for servers of its higher level.
function headerMismatch({ headers }, { method, params } = {}) {
  if (method !== "tools/call") return undefined;
  for (const [argument, { "x-mcp-header": name }] of Object.entries(tools[params?.name]?.schema?.properties ?? {})) {
    if (!name || params.arguments?.[argument] === undefined) continue;
    const sent = headers[`mcp-param-${name.toLowerCase()}`];
    const coded = /^=\?base64\?(.*)\?=$/.exec(sent)?.[1];
    const value = coded === undefined ? sent : Buffer.from(coded, "base64").toString();
    const wellFormed = coded === undefined || Buffer.from(value).toString("base64") === coded;
    if (!wellFormed || value !== String(params.arguments[argument])) return `Header mismatch: Mcp-Param-${name}`;
  }
  return undefined;
}

const modern = createMcpHandler(() => server("modern"), { legacy: "reject" });
const serveModern = toNodeHandler(modern);
const hostIsLocal = localhostHostValidation();
const originIsLocal = localhostOriginValidation();
const listener = createServer(async (request, response) => {
  if (!hostIsLocal(request, response) || !originIsLocal(request, response)) return;
  const body = request.method === "POST" ? await read(request) : undefined;
  const isLegacy = request.method !== "POST" || (await isLegacyRequest(await toWebRequest(request, body)));
  const mismatch = isLegacy ? undefined : headerMismatch(request, body);
  if (mismatch) {
    const error = { jsonrpc: "2.0", id: body.id, error: { code: -32020, message: mismatch } };
    return void response.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify(error));
  }
  if (!isLegacy && tasks.isAboutTasks(body)) {
    const [status, answer] = await tasks.answer(request.headers, body);
    return void response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(answer));
  }
  await (isLegacy ? legacy(request, response, body) : serveModern(request, response, body));
});
listener.listen(0, "127.0.0.1", () => writeFileSync(process.argv[2], `http://127.0.0.1:${listener.address().port}/mcp`));
