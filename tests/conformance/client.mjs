// Drives the gateway as the client of a scenario: the scenario's server is the gateway's only target, so what the scenario judges is what the gateway sends.
//
//     client.mjs URL        with MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION and MCP_CONFORMANCE_CONTEXT of the runner, and TRANSOM_BIN

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const target = process.argv.at(-1);
const { MCP_CONFORMANCE_SCENARIO: scenario, MCP_CONFORMANCE_PROTOCOL_VERSION: revision, MCP_CONFORMANCE_CONTEXT: context, TRANSOM_BIN: binary } = process.env;
const isModern = revision === "2026-07-28";

async function eventually(what, check) {
  for (const end = Date.now() + 20_000; Date.now() < end; await delay(20)) {
    const answer = await check().catch(() => undefined);
    if (answer) return answer;
  }
  throw new Error(`not within twenty seconds: ${what}`);
}

async function startGateway(folder) {
  const free = { listen: "127.0.0.1:0" };
  const entry = { name: "scenario", mcp: { host: target }, allowServerRequests: true };
  const config = { ...free, admin: free, metrics: free, backends: [{ mcp: { targets: [entry] } }] };
  await writeFile(join(folder, "config.yaml"), JSON.stringify(config));
  const child = spawn(binary, ["run", "-f", join(folder, "config.yaml"), "--url-file", join(folder, "url")], { stdio: ["ignore", "inherit", "inherit"] });
  const url = await eventually("the gateway has bound its socket", async () => (await readFile(join(folder, "url"), "utf8")).trim());
  await eventually("the gateway is connected", async () => (await fetch(`${url}/ready`)).ok);
  return { child, endpoint: new URL(`${url}/mcp`) };
}

async function connect(endpoint) {
  const capabilities = { sampling: {}, elicitation: { form: { applyDefaults: true } }, roots: {} };
  const client = new Client({ name: "transom-conformance", version: "1" }, { capabilities, versionNegotiation: { mode: isModern ? { pin: revision } : "legacy" } });
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: scenario.includes("defaults") ? {} : { confirmed: true } }));
  await client.connect(new StreamableHTTPClientTransport(endpoint));
  return client;
}

// As a modern client without a library, which would leave out what it finds invalid by itself.
async function ask(endpoint, method, params, headers = {}) {
  const meta = { "io.modelcontextprotocol/protocolVersion": revision, "io.modelcontextprotocol/clientCapabilities": {} };
  const reply = await fetch(endpoint, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": revision, "mcp-method": method, ...headers },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta: meta } }),
  });
  return reply.json();
}

const plays = {
  tools_call: (client) => client.callTool({ name: "add_numbers", arguments: { a: 5, b: 3 } }),
  "elicitation-sep1034-client-defaults": (client) => client.callTool({ name: "test_client_elicitation_defaults", arguments: {} }),
  "sse-retry": (client) => client.callTool({ name: "test_reconnection", arguments: {} }),
  "sep-2322-client-request-state": async (client) => {
    for (const name of ["test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"]) await client.callTool({ name, arguments: {} });
  },
  "http-standard-headers": async (client, { tools }) => {
    for (const { name } of tools) await client.callTool({ name, arguments: {} });
    for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
    for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name });
  },
  "http-custom-headers": async (client) => {
    for (const call of JSON.parse(context).toolCalls) await client.callTool(call);
  },
  "http-invalid-tool-headers": async (_client, _listed, endpoint) => {
    for (const { name } of (await ask(endpoint, "tools/list", {})).result.tools) {
      await ask(endpoint, "tools/call", { name, arguments: { region: "us-west1" } }, { "mcp-name": name, "mcp-param-region": "us-west1" });
    }
  },
  "json-schema-2020-12-preservation": (client, { tools }) => {
    const schema = tools.find(({ name }) => name === "json_schema_2020_12_tool").inputSchema;
    return client.callTool({ name: "json_schema_echo", arguments: { schema } });
  },
};

const folder = await mkdtemp(join(tmpdir(), "transom-conformance-"));
const { child, endpoint } = await startGateway(folder);
try {
  const client = await connect(endpoint);
  const listed = await client.listTools();
  await plays[scenario]?.(client, listed, endpoint);
  await client.close();
} finally {
  child.kill();
  await rm(folder, { recursive: true });
}
process.exit(0);
