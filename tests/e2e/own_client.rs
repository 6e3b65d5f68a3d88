//! Our own client on the command line, against real servers.

use crate::gateway::gateway;
use crate::servers::{everything_stdio, modern};
use tokio::process::Command;
use transom_tests::children::{run, stdout};
use transom_tests::install::have;
use transom_tests::process::binary;

#[tokio::test]
async fn transom_list_and_transom_call_use_real_servers() {
    if !have(&["node", "venv"]) {
        return;
    }
    let modern = modern().await;
    let gateway = gateway(vec![everything_stdio("everything"), modern.target("modern")]).await;
    // A gateway is a server like any other, and so is a server without one.
    for url in [gateway.mcp(), modern.url.clone()] {
        let tools = stdout(Command::new(binary()).args(["list", "--url", &url])).await;
        assert!(tools.contains("add") && tools.contains("Adds a and b."), "{tools}");
        // The schema says integer, so the text becomes a number.
        let sum = stdout(Command::new(binary()).args(["call", "add", "a=40", "b=2", "--url", &url])).await;
        assert!(sum.contains("42"), "{sum}");

        let refused = run(Command::new(binary()).args(["call", "refuse", "--url", &url])).await;
        assert_eq!(refused.status.code(), Some(5), "the tool said no: {refused:?}");
    }
    let echoed = stdout(Command::new(binary()).args(["call", "echo", "message=hello there", "--url", &gateway.mcp()])).await;
    assert!(echoed.contains("Echo: hello there"), "{echoed}");
}
