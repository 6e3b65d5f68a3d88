/** A call that failed. */
export class ToolError extends Error {
  /** What went wrong: `tool_error` where the tool itself says so, else a code of the gateway. */
  readonly code: string;
  /** The server of the tool; `null` for a tool that stands on none. */
  readonly server: string | null;
  /** Whether the call did not run and may succeed later. */
  readonly retryable: boolean;
  /** What else is known. */
  readonly details: unknown;

  constructor(message: string, code: string, server: string | null, retryable: boolean, details?: unknown) {
    super(message);
    this.name = "ToolError";
    this.code = code;
    this.server = server;
    this.retryable = retryable;
    this.details = details;
  }
}

/** How the gateway is reached. */
export interface Settings {
  /** Its base URL. Without it: `TRANSOM_URL`, then `TOOLSCRIPT_GATEWAY_URL`, then where this module was loaded from. */
  url?: string | undefined;
  /** Sent with every call, `authorization` for example. Without one: `TRANSOM_TOKEN` as a bearer token. */
  headers?: { [name: string]: string } | undefined;
}

let settings: Settings = {};

/** Says how the gateway is reached. What is not mentioned stays as it was. */
export function configure(wanted: Settings): void {
  settings = { ...settings, ...wanted };
}

// Deno, Bun, Node and browsers each bring types of their own for these, or none.
const world = globalThis as unknown as {
  fetch(url: string, init: { method: string; headers: { [name: string]: string }; body: string }): Promise<{ status: number; text(): Promise<string> }>;
  Deno?: { env: { get(name: string): string | undefined } };
  process?: { env?: { [name: string]: string | undefined } };
};

function variable(name: string): string | undefined {
  try {
    return (world.Deno ? world.Deno.env.get(name) : world.process?.env?.[name]) || undefined;
  } catch {
    // Deno without leave to read it: as good as not set.
    return undefined;
  }
}

function base(): string {
  const here = (import.meta as { url?: string }).url ?? "";
  const origin = /^(https?:\/\/[^?#]*)\/runtime\/tools\.ts(?:[?#]|$)/.exec(here) ?? /^(https?:\/\/[^\/?#]+)/.exec(here);
  const url = settings.url || variable("TRANSOM_URL") || variable("TOOLSCRIPT_GATEWAY_URL") || origin?.[1];
  if (!url) {
    throw new ToolError("where is the gateway? Set TRANSOM_URL, or call configure({ url })", "no_gateway", null, false);
  }
  // The address of its MCP endpoint will do.
  return url.replace(/\/+$/, "").replace(/\/mcp$/, "");
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

interface Answer {
  success?: boolean;
  result?: { content?: { type?: string; text?: string }[]; structuredContent?: unknown; isError?: boolean };
  error?: { code?: string | number; message?: string; details?: unknown };
}

/** Calls a tool: its structured content, else its text read as JSON, else its text. */
export async function call<R = unknown>(path: string, server: string | null, params?: unknown): Promise<R> {
  const url = base() + path;
  const headers: { [name: string]: string } = { "content-type": "application/json", "accept": "application/json" };
  const token = variable("TRANSOM_TOKEN");
  if (token) {
    headers["authorization"] = "Bearer " + token;
  }
  for (const [name, value] of Object.entries(settings.headers ?? {})) {
    headers[name.toLowerCase()] = value;
  }
  let status = 0;
  let text = "";
  try {
    const reply = await world.fetch(url, { method: "POST", headers, body: JSON.stringify({ arguments: params ?? {} }) });
    status = reply.status;
    text = await reply.text();
  } catch (cause) {
    throw new ToolError("no answer from " + url + ": " + String(cause), "no_answer", server, false, cause);
  }
  const answer = parsed(text) as Answer | null | undefined;
  if (answer?.success !== true || !answer.result) {
    const error = answer?.error;
    const code = String(error?.code ?? "http_" + status);
    throw new ToolError(error?.message ?? "the gateway answered with status " + status, code, server, status === 429 || status === 503, error?.details);
  }
  const result = answer.result;
  const content = result.content ?? [];
  const texts = content.filter((block) => block.type === "text").map((block) => block.text ?? "");
  if (result.isError) {
    throw new ToolError(texts.join("\n") || "the tool failed", "tool_error", server, false, result);
  }
  if (result.structuredContent !== undefined) {
    return result.structuredContent as R;
  }
  if (texts.length === 0) {
    return content as R;
  }
  const value = parsed(texts.join("\n"));
  return (value === undefined ? texts.join("\n") : value) as R;
}
