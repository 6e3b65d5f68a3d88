// Plays a conversation with the TypeScript client of either generation and prints what came back as one line of JSON.
//
//     typescript.mjs URL WITH STEPS
//
// WITH: `legacy` or `modern` (@modelcontextprotocol/client 2), `sdk1` (@modelcontextprotocol/sdk 1 over Streamable HTTP) or `sdk1-sse` (over the HTTP+SSE
// transport of 2024-11-05). In place of a URL there may be a server to start, as JSON: {"command": …, "args": […]}. STEPS and the answer are described in
// tests/e2e/talk.rs.

const [where, how, steps] = [process.argv[2], process.argv[3], JSON.parse(process.argv[4])];
const child = where.startsWith("{") ? JSON.parse(where) : undefined;
const url = child ? undefined : new URL(where);
const me = { name: "transom-e2e", version: "1" };

async function connect() {
  if (how.startsWith("sdk1")) {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { SSEClientTransport } = await import("@modelcontextprotocol/sdk/client/sse.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { StdioClientTransport } = await import("@modelcontextprotocol/sdk/client/stdio.js");
    const overHttp = () => (how === "sdk1-sse" ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url));
    const transport = child ? new StdioClientTransport(child) : overHttp();
    // The revision is the transport's business in this generation: we look over its shoulder.
    const client = new Client(me);
    let revision;
    const seen = transport.setProtocolVersion?.bind(transport);
    transport.setProtocolVersion = (version) => { revision = version; seen?.(version); };
    await client.connect(transport);
    return { client, revision: () => revision };
  }
  const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  const mode = how === "modern" ? { pin: "2026-07-28" } : "legacy";
  const client = new Client(me, { versionNegotiation: { mode } });
  const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
  await client.connect(child ? new StdioClientTransport(child) : new StreamableHTTPClientTransport(url));
  return { client, revision: () => client.getNegotiatedProtocolVersion() };
}

async function take(client, step) {
  switch (Object.keys(step)[0]) {
    case "list":
      return await { tools: () => client.listTools(), resources: () => client.listResources(), prompts: () => client.listPrompts() }[step.list]();
    case "read":
      return await client.readResource({ uri: step.read });
    case "prompt":
      return await client.getPrompt({ name: step.prompt, arguments: step.arguments });
    case "call": {
      const progress = [];
      const options = step.progress ? { onprogress: (note) => progress.push([note.progress, note.total]) } : undefined;
      const result = await call(client, step.call, step.arguments, options);
      return step.progress ? { progress, result } : result;
    }
    case "cancel": {
      const stop = new AbortController();
      const outcome = call(client, step.cancel, step.arguments, { signal: stop.signal, onprogress: () => stop.abort(), timeout: 20_000 });
      return { cancelled: await outcome.then(() => false, () => stop.signal.aborted) };
    }
    case "change":
      return await change(client, step);
  }
}

const call = (client, name, args, options) =>
  how.startsWith("sdk1") ? client.callTool({ name, arguments: args }, undefined, options) : client.callTool({ name, arguments: args }, options);

// The two kinds of list that can change: how a client is told, what it subscribes to, and whether something is in it.
const lists = {
  tools: {
    method: "notifications/tools/list_changed",
    schema: "ToolListChangedNotificationSchema",
    filter: { toolsListChanged: true },
    has: async (client, expect) => (await client.listTools()).tools.some(({ name }) => name === expect),
  },
  resources: {
    method: "notifications/resources/list_changed",
    schema: "ResourceListChangedNotificationSchema",
    filter: { resourcesListChanged: true },
    has: async (client, expect) => (await client.listResources()).resources.some(({ uri }) => uri === expect),
  },
};

// Changes a list, and waits until it was told so and finds what is new.
async function change(client, step) {
  const { method, schema, filter, has } = lists[step.of ?? "tools"];
  const bell = new EventTarget();
  const ring = () => void bell.dispatchEvent(new Event("change"));
  let subscription;
  if (how.startsWith("sdk1")) {
    const types = await import("@modelcontextprotocol/sdk/types.js");
    client.setNotificationHandler(types[schema], ring);
  } else {
    client.setNotificationHandler(method, ring);
    if (how === "modern") subscription = await client.listen(filter);
  }
  const found = new Promise((resolve, reject) => {
    setTimeout(() => reject(new Error("no change within twenty seconds")), 20_000).unref();
    bell.addEventListener("change", async () => {
      if (await has(client, step.expect)) resolve({ changed: true });
    });
  });
  await call(client, step.change, step.arguments);
  const answer = await found;
  await subscription?.close();
  return answer;
}

const { client, revision } = await connect();
const replies = [];
for (const step of steps) {
  try {
    replies.push(await take(client, step));
  } catch (error) {
    if (typeof error.code !== "number") throw error;
    replies.push({ error: { code: error.code, message: error.message } });
  }
}
// A pipe takes 64 KiB at a time; `exit` would not wait for the rest.
await new Promise((written) => process.stdout.write(`${JSON.stringify({ revision: revision(), replies })}\n`, written));
await client.close();
process.exit(0);
