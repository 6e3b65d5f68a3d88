// A program that uses the module `tools.ts` beside it, and prints what it got as one line of JSON. The compiler checks it too: what it must refuse is marked.
import { configure, ToolError, tools } from "./tools.ts";

const weather = await tools.everything.getStructuredContent({ location: "Chicago" });
const temperature: number = weather.temperature;
// @ts-expect-error: there is no such city in its schema
const elsewhere = () => tools.everything.getStructuredContent({ location: "Atlantis" });
// @ts-expect-error: something is required
const nothing = () => tools.everything.getStructuredContent();
// @ts-expect-error: there is no such tool
const nowhere = () => tools.everything.nowhere({});
void [elsewhere, nothing, nowhere];

const text = await tools.everything.echo({ message: "hi" });
const graph = await tools.memory.readGraph();
const time = await tools.time.convertTime({ source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo" });

async function failure(call: () => Promise<unknown>): Promise<unknown> {
  try {
    return await call();
  } catch (error) {
    return error instanceof ToolError ? { code: error.code, server: error.server, retryable: error.retryable, message: error.message } : String(error);
  }
}

const refused = await failure(() => tools.everything.echo({ message: 7 as unknown as string }));
const failed = await failure(() => tools.filesystem.readTextFile({ path: "/etc/passwd" }));
configure({ url: "http://127.0.0.1:1" });
const unreachable = await failure(() => tools.everything.echo({ message: "hi" }));
console.log(JSON.stringify({ weather, temperature, text, graph, time, refused, failed, unreachable }));
