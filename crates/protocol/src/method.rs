//! The methods we know; also the closed set of values of the metric label `mcp_method_name`.

macro_rules! methods {
    ($($name:ident = $text:literal),* $(,)?) => {
        /// A method of MCP, any revision.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Method {
            $(#[doc = $text] $name,)*
            /// Any other text.
            Unknown,
        }

        impl Method {
            /// Every known method.
            pub const ALL: &[Method] = &[$(Method::$name),*];

            /// The method with this name.
            pub fn read(text: &str) -> Method {
                match text {
                    $($text => Method::$name,)*
                    _ => Method::Unknown,
                }
            }

            /// Its name; `_unknown` for what we do not know.
            pub fn name(self) -> &'static str {
                match self {
                    $(Method::$name => $text,)*
                    Method::Unknown => "_unknown",
                }
            }
        }
    };
}

methods! {
    Initialize = "initialize",
    Ping = "ping",
    SetLevel = "logging/setLevel",
    Discover = "server/discover",
    Listen = "subscriptions/listen",
    ListTools = "tools/list",
    CallTool = "tools/call",
    ListPrompts = "prompts/list",
    GetPrompt = "prompts/get",
    ListResources = "resources/list",
    ListTemplates = "resources/templates/list",
    ReadResource = "resources/read",
    Subscribe = "resources/subscribe",
    Unsubscribe = "resources/unsubscribe",
    Complete = "completion/complete",
    GetTask = "tasks/get",
    TaskResult = "tasks/result",
    UpdateTask = "tasks/update",
    CancelTask = "tasks/cancel",
    ListTasks = "tasks/list",
    CreateMessage = "sampling/createMessage",
    Elicit = "elicitation/create",
    ListRoots = "roots/list",
    Initialized = "notifications/initialized",
    Cancelled = "notifications/cancelled",
    Progress = "notifications/progress",
    LogMessage = "notifications/message",
    ToolsChanged = "notifications/tools/list_changed",
    PromptsChanged = "notifications/prompts/list_changed",
    ResourcesChanged = "notifications/resources/list_changed",
    ResourceUpdated = "notifications/resources/updated",
    TaskNews = "notifications/tasks",
    TaskStatus = "notifications/tasks/status",
    RootsChanged = "notifications/roots/list_changed",
}

impl Method {
    /// Whether the method is a notification by its name.
    pub fn is_notification(self) -> bool {
        self.name().starts_with("notifications/")
    }
}
