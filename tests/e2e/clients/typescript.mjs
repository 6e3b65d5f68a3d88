// Plays a conversation with the TypeScript client of either generation and prints what came back as one line of JSON.
//
//     typescript.mjs URL WITH STEPS
//
// WITH: `legacy` or `modern` (@modelcontextprotocol/client 2), `sdk1` (@modelcontextprotocol/sdk 1 over Streamable HTTP) or `sdk1-sse` (over the HTTP+SSE
// transport of 2024-11-05). STEPS and the answer are described in tests/e2e/talk.rs.

const [url, how, steps] = [new URL(process.argv[2]), process.argv[3], JSON.parse(process.argv[4])];
const me = { name: "transom-e2e", version: "1" };

async function connect() {
  if (how.startsWith("sdk1")) {
    const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
    const { SSEClientTransport } = await import("@modelcontextprotocol/sdk/client/sse.js");
    const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const transport = how === "sdk1-sse" ? new SSEClientTransport(url) : new StreamableHTTPClientTransport(url);
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
  await client.connect(new StreamableHTTPClientTransport(url));
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
      const call = { name: step.call, arguments: step.arguments };
      const result = how.startsWith("sdk1") ? await client.callTool(call, undefined, options) : await client.callTool(call, options);
      return step.progress ? { progress, result } : result;
    }
  }
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
