/** A call that failed. */
export declare class ToolError extends Error {
  /** What went wrong: `tool_error` where the tool itself says so, else a code of the gateway. */
  readonly code: string;
  /** The server of the tool; `null` for a tool that stands on none. */
  readonly server: string | null;
  /** Whether the call did not run and may succeed later. */
  readonly retryable: boolean;
  /** What else is known. */
  readonly details: unknown;
}
