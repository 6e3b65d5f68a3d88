//! The clients that are known. Data, not code: a new one is a new entry.
//!
//! In templates `@url`, `@name`, `@command` and `@args` stand for quoted text (the last for a list of it) and `@token` for the bare name of an
//! environment variable; `@shell_url` is the URL as a shell reads it. In paths `~` is the user's home, `$CONFIG` the folder for settings; a path with neither is in the current folder. Shapes and
//! places are what the clients' own documentation said in November 2026.

/// How the config of a client is written.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// JSON, with comments where the client allows them: the entry is a member of this object.
    Json {
        /// The object with all servers.
        under: &'static str,
    },
    /// TOML: the entry is a table in this table.
    Toml {
        /// The table with all servers.
        under: &'static str,
    },
    /// A file of its own for each server.
    Whole,
    /// Nothing that we change; it is only shown.
    Shown,
}

/// A client and how it is told of a server.
#[derive(Debug)]
pub struct Client {
    /// What it is called on our command line.
    pub name: &'static str,
    /// What it is called by people.
    pub title: &'static str,
    /// Its file, by system; empty if it has none.
    pub linux: &'static str,
    /// On macOS.
    pub macos: &'static str,
    /// On Windows.
    pub windows: &'static str,
    /// What the file looks like.
    pub format: Format,
    /// A server reached over Streamable HTTP; none if the client speaks only to processes.
    pub http: Option<&'static str>,
    /// The same with a bearer token from the environment; none if the client cannot read it there.
    pub http_with_token: Option<&'static str>,
    /// A server that is a process.
    pub stdio: Option<&'static str>,
    /// What is left to do.
    pub then: &'static str,
}

const PROCESS: Option<&str> = Some(r#"{"command": @command, "args": @args}"#);

/// Every client, by name.
pub const CLIENTS: &[Client] = &[
    Client {
        name: "claude-code",
        title: "Claude Code",
        linux: ".mcp.json",
        macos: ".mcp.json",
        windows: ".mcp.json",
        format: Format::Json { under: "mcpServers" },
        http: Some(r#"{"type": "http", "url": @url}"#),
        http_with_token: Some(r#"{"type": "http", "url": @url, "headers": {"Authorization": "Bearer ${@token}"}}"#),
        stdio: Some(r#"{"type": "stdio", "command": @command, "args": @args}"#),
        then: "for this project; start `claude` here and approve the server (`/mcp` shows it)",
    },
    Client {
        name: "claude-desktop",
        title: "Claude Desktop",
        linux: "$CONFIG/Claude/claude_desktop_config.json",
        macos: "~/Library/Application Support/Claude/claude_desktop_config.json",
        windows: "$CONFIG/Claude/claude_desktop_config.json",
        format: Format::Json { under: "mcpServers" },
        http: None,
        http_with_token: None,
        stdio: PROCESS,
        then: "quit Claude Desktop and start it again",
    },
    Client {
        name: "cline",
        title: "Cline",
        linux: "~/.cline/data/settings/cline_mcp_settings.json",
        macos: "~/.cline/data/settings/cline_mcp_settings.json",
        windows: "~/.cline/data/settings/cline_mcp_settings.json",
        format: Format::Json { under: "mcpServers" },
        http: Some(r#"{"type": "streamableHttp", "url": @url, "disabled": false}"#),
        http_with_token: None,
        stdio: Some(r#"{"command": @command, "args": @args, "disabled": false}"#),
        then: "in an editor, `MCP Servers`, `Configure` opens the file that its extension reads",
    },
    Client {
        name: "codex",
        title: "Codex",
        linux: "~/.codex/config.toml",
        macos: "~/.codex/config.toml",
        windows: "~/.codex/config.toml",
        format: Format::Toml { under: "mcp_servers" },
        http: Some("url = @url\n"),
        http_with_token: Some("url = @url\nbearer_token_env_var = \"@token\"\n"),
        stdio: Some("command = @command\nargs = @args\n"),
        then: "restart Codex; `/mcp` shows the server",
    },
    Client {
        name: "continue",
        title: "Continue",
        linux: ".continue/mcpServers/@name.yaml",
        macos: ".continue/mcpServers/@name.yaml",
        windows: ".continue/mcpServers/@name.yaml",
        format: Format::Whole,
        http: Some("name: @name\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: @name\n    type: streamable-http\n    url: @url\n"),
        http_with_token: None,
        stdio: Some("name: @name\nversion: 0.0.1\nschema: v1\nmcpServers:\n  - name: @name\n    command: @command\n    args: @args\n"),
        then: "for this project; servers are used in agent mode",
    },
    Client {
        name: "copilot-cli",
        title: "GitHub Copilot CLI",
        linux: "~/.copilot/mcp-config.json",
        macos: "~/.copilot/mcp-config.json",
        windows: "~/.copilot/mcp-config.json",
        format: Format::Json { under: "mcpServers" },
        http: Some(r#"{"type": "http", "url": @url, "tools": ["*"]}"#),
        http_with_token: None,
        stdio: Some(r#"{"type": "stdio", "command": @command, "args": @args, "tools": ["*"]}"#),
        then: "`/mcp show` lists the servers",
    },
    Client {
        name: "cursor",
        title: "Cursor",
        linux: "~/.cursor/mcp.json",
        macos: "~/.cursor/mcp.json",
        windows: "~/.cursor/mcp.json",
        format: Format::Json { under: "mcpServers" },
        http: Some(r#"{"url": @url}"#),
        http_with_token: Some(r#"{"url": @url, "headers": {"Authorization": "Bearer ${env:@token}"}}"#),
        stdio: PROCESS,
        then: "restart Cursor; a project's own servers stand in its .cursor/mcp.json",
    },
    Client {
        name: "gemini-cli",
        title: "Gemini CLI",
        linux: "~/.gemini/settings.json",
        macos: "~/.gemini/settings.json",
        windows: "~/.gemini/settings.json",
        format: Format::Json { under: "mcpServers" },
        http: Some(r#"{"httpUrl": @url}"#),
        http_with_token: Some(r#"{"httpUrl": @url, "headers": {"Authorization": "Bearer ${@token}"}}"#),
        stdio: PROCESS,
        then: "restart Gemini CLI; `/mcp` shows the server",
    },
    Client {
        name: "goose",
        title: "goose",
        linux: "$CONFIG/goose/config.yaml",
        macos: "~/.config/goose/config.yaml",
        windows: "$CONFIG/Block/goose/config/config.yaml",
        format: Format::Shown,
        http: Some(
            "extensions:\n  @name:\n    name: @name\n    description: Tools of a Transom gateway\n    type: streamable_http\n    enabled: true\n    uri: @url\n    timeout: 300\n",
        ),
        http_with_token: None,
        stdio: Some(
            "extensions:\n  @name:\n    name: @name\n    description: Tools of a Transom gateway\n    type: stdio\n    enabled: true\n    cmd: @command\n    args: @args\n    timeout: 300\n",
        ),
        then: "put it into `extensions:` of the file, or use `goose configure`",
    },
    Client {
        name: "inspector",
        title: "MCP Inspector",
        linux: "",
        macos: "",
        windows: "",
        format: Format::Shown,
        http: Some("npx @modelcontextprotocol/inspector --cli --server-url @shell_url --transport http --method tools/list\n"),
        http_with_token: Some(
            "npx @modelcontextprotocol/inspector --cli --server-url @shell_url --transport http --header \"Authorization: Bearer $@token\" --method tools/list\n",
        ),
        stdio: None,
        then: "a command to run; without `--cli` and what follows `http` it opens a page",
    },
    Client {
        name: "vscode",
        title: "VS Code",
        linux: ".vscode/mcp.json",
        macos: ".vscode/mcp.json",
        windows: ".vscode/mcp.json",
        format: Format::Json { under: "servers" },
        http: Some(r#"{"type": "http", "url": @url}"#),
        http_with_token: Some(r#"{"type": "http", "url": @url, "headers": {"Authorization": "Bearer ${env:@token}"}}"#),
        stdio: Some(r#"{"type": "stdio", "command": @command, "args": @args}"#),
        then: "for this project; `MCP: List Servers` starts it",
    },
    Client {
        name: "windsurf",
        title: "Windsurf",
        linux: "~/.codeium/windsurf/mcp_config.json",
        macos: "~/.codeium/windsurf/mcp_config.json",
        windows: "~/.codeium/windsurf/mcp_config.json",
        format: Format::Json { under: "mcpServers" },
        http: Some(r#"{"serverUrl": @url}"#),
        http_with_token: Some(r#"{"serverUrl": @url, "headers": {"Authorization": "Bearer ${env:@token}"}}"#),
        stdio: PROCESS,
        then: "refresh the servers in Cascade",
    },
    Client {
        name: "zed",
        title: "Zed",
        linux: "$CONFIG/zed/settings.json",
        macos: "~/.config/zed/settings.json",
        windows: "$CONFIG/Zed/settings.json",
        format: Format::Json { under: "context_servers" },
        http: Some(r#"{"url": @url}"#),
        http_with_token: None,
        stdio: Some(r#"{"command": @command, "args": @args, "env": {}}"#),
        then: "the agent panel's settings show the server",
    },
];
