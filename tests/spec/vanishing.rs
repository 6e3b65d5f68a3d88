//! L3: a peer that is gone without a word: no FIN, no RST, just silence.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use transom_tests::*;

/// A network of its own, joined to this one by a pair of interfaces. Gone when dropped.
struct Elsewhere {
    name: String,
    near: String,
    far: String,
}

fn ip(arguments: &[&str]) -> bool {
    Command::new("ip").args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

impl Elsewhere {
    fn new() -> Option<Elsewhere> {
        // No two at once have the same: neither in other processes nor in this one, where tests may run side by side.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = (std::process::id() * 2 + NEXT.fetch_add(1, Relaxed)) % 16_000;
        let (name, near, far) = (format!("trsm{number}"), format!("trn{number}"), format!("trf{number}"));
        // 198.18.0.0/15 is for tests of networks, and has room for four addresses each.
        let address = |host: u32| Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 0).to_bits() + number * 4 + host).to_string();
        let made = Elsewhere { name, near: address(1), far: address(2) };
        let steps: [&[&str]; 7] = [
            &["netns", "add", &made.name],
            &["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &made.name],
            &["addr", "add", &format!("{}/30", made.near), "dev", &near],
            &["link", "set", &near, "up"],
            &["-n", &made.name, "addr", "add", &format!("{}/30", made.far), "dev", &far],
            &["-n", &made.name, "link", "set", &far, "up"],
            &["-n", &made.name, "link", "set", "lo", "up"],
        ];
        let all = steps.into_iter().all(ip);
        all.then_some(made)
    }

    /// From now on nothing of what is there arrives here.
    fn fall_silent(&self) {
        assert!(ip(&["-n", &self.name, "route", "add", "blackhole", &format!("{}/32", self.near)]), "a route into nothing");
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.name]);
    }
}

#[tokio::test]
async fn a_target_that_falls_silent_loses_its_calls_within_half_a_minute() {
    let Some(elsewhere) = Elsewhere::new() else {
        return install::skip("no network can be made here; be root, with `ip` of iproute2");
    };
    let far = process()
        .stdio("child", json!({"tools": ["sleep"]}))
        .config(|config| {
            config["listen"] = json!(format!("{}:3000", elsewhere.far));
            config["allowUnauthenticated"] = json!(true);
        })
        .under(&["ip", "netns", "exec", &elsewhere.name])
        .start_ready()
        .await;
    let mut spec = target("far").spec();
    spec.timeout = Duration::from_secs(120);
    spec.transport = transom_upstream::Transport::Http { url: far.url("/mcp").parse().unwrap(), headers: Vec::new(), tls: None };
    let gateway = gateway().spec(spec).start().await;
    let client = gateway.client().await;
    let call = client.start_call("sleep", json!({"ms": 100_000}));
    eventually("the call is under way", async || gateway.metric("transom_target_in_flight{target=\"far\"}").await == 1.0).await;

    elsewhere.fall_silent();
    let start = Instant::now();
    let mut call = call;
    let reply = call.reply_within(Duration::from_secs(60)).await.expect("an end");
    println!("a call at a silent target ended after {:?}", start.elapsed());
    reply.failed(1003, json!("unknown"));
    assert!(start.elapsed() < Duration::from_secs(32), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_client_that_falls_silent_is_noticed_within_half_a_minute() {
    let Some(elsewhere) = Elsewhere::new() else {
        return install::skip("no network can be made here; be root, with `ip` of iproute2");
    };
    let a = target("a").tool("echo", []);
    let at = format!("{}:0", elsewhere.near).parse().unwrap();
    let gateway = gateway()
        .target(&a)
        .config(|config| {
            config.listen = at;
            config.allow_unauthenticated = true;
        })
        .start()
        .await;
    let session = gateway.client().await.session().unwrap();
    let mut listener = tokio::process::Command::new("ip")
        .args([
            "netns",
            "exec",
            &elsewhere.name,
            "curl",
            "-sN",
            "-H",
            "accept: text/event-stream",
            "-H",
            &format!("mcp-session-id: {session}"),
            &gateway.url("/mcp"),
        ])
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually("it listens", async || gateway.metric("transom_streams_open").await == 1.0).await;
    elsewhere.fall_silent();
    let took = within(Duration::from_secs(60), "its stream is closed", async || gateway.metric("transom_streams_open").await == 0.0).await;
    println!("the stream of a silent client was closed after {took:?}");
    assert!(took < Duration::from_secs(32), "{took:?}");
    listener.kill().await.ok();
}
