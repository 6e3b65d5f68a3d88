//! Group C: who calls. Credentials that do not count get nowhere near a target, and good ones never leave the gateway.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use std::net::SocketAddr;
use std::time::Duration;
use transom_gateway::config::{Authentication, Jwks};
use transom_tests::client::{LEGACY, MODERN};
use transom_tests::issuer::{SigningKey, seconds_from_now};
use transom_tests::*;

const KEY: &str = "key-of-the-robot-7f3a";

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// Tokens of this issuer and the key of a robot.
fn who(issuer: &Issuer) -> Authentication {
    Authentication { jwt: vec![issuer.config()], api_keys: vec![api_key("robot", KEY)], resource: None }
}

async fn guarded(target: &Target, issuer: &Issuer) -> Gateway {
    let config = who(issuer);
    let gateway = gateway().target(target).config(|settings| settings.authentication = Some(config)).start().await;
    let token = bearer(&issuer.token("warm-up"));
    // `/status` asks no target.
    eventually("the keys of the issuer are there", || async { gateway.send("GET", "/status", &[("authorization", &token)], "").await.status == 200 })
        .await;
    gateway
}

/// The status of a call with this token.
async fn ask(gateway: &Gateway, token: &str) -> u16 {
    call_with(gateway, &[("authorization", &bearer(token))]).await.status
}

async fn call_with(gateway: &Gateway, headers: &[(&str, &str)]) -> http::Response {
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "hello", "arguments": {}}});
    gateway.post_mcp(headers, body.to_string()).await
}

// C2: CVE-2026-12773
#[tokio::test]
async fn malformed_credentials_are_never_anonymous_and_reach_no_target() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    let gateway = guarded(&target, &issuer).await;
    let before = target.requests().len();
    let good = bearer(&issuer.token("somebody"));
    let token = issuer.token("somebody");
    let long = bearer(&"a".repeat(8 * 1024 + 1));
    let padded = format!("Bearer {token} ,");
    let (doubled, commas) = (format!("Bearer {token} {token}"), format!("Bearer {token}, Bearer {token}"));
    let (quoted, spaced, tabbed) = (format!("Bearer \"{token}\""), format!("Bearer {token} x"), format!("Bearer\t{token}"));
    let (basic, glued, colon, equals) = (format!("Basic {token}"), format!("Bearer{token}"), format!("Bearer: {token}"), format!("Bearer={token}"));
    let (bare, token_scheme, two_dots) = (token.clone(), format!("Token {token}"), "Bearer a.b.c".to_owned());
    let half = bearer(token.rsplit_once('.').map_or("", |(head, _)| head));
    let unsigned = bearer(&format!("{}.", token.rsplit_once('.').map_or("", |(head, _)| head)));
    let one_more = bearer(&format!("{token}.x"));
    let (with_key, key_glued) = (format!("Bearer {KEY}{KEY}"), format!("Bearer {KEY},{token}"));
    let upper_key = KEY.to_uppercase();
    let spaced_key = format!("{KEY} {KEY}");
    let mut cases: Vec<Vec<(&str, &str)>> = vec![
        vec![],
        vec![("authorization", "")],
        vec![("authorization", " ")],
        vec![("authorization", "bearer")],
        vec![("authorization", "Bearer")],
        vec![("authorization", "Bearer ")],
        vec![("authorization", "Bearer  ")],
        vec![("authorization", "Bearer garbage")],
        vec![("authorization", "Bearer null")],
        vec![("authorization", "Bearer undefined")],
        vec![("authorization", "Bearer anonymous")],
        vec![("authorization", "Bearer ..")],
        vec![("authorization", "Bearer ...")],
        vec![("authorization", "Bearer {}")],
        vec![("authorization", "Bearer e30.e30.")],
        vec![("authorization", "Bearer e30.e30.e30")],
        vec![("authorization", "Bearer =")],
        vec![("authorization", "Bearer %00")],
        vec![("authorization", "Bearer ../../key")],
        vec![("authorization", "Bearer eyJhbGciOiJub25lIn0.e30.")],
        vec![("authorization", "Basic")],
        vec![("authorization", "Basic Og==")],
        vec![("authorization", "Basic YWRtaW46YWRtaW4=")],
        vec![("authorization", "Digest username=\"admin\"")],
        vec![("authorization", "Negotiate YII=")],
        vec![("authorization", "ApiKey x")],
        vec![("authorization", "anonymous")],
        vec![("authorization", ",")],
        vec![("authorization", "Bearer ,")],
        vec![("authorization", &long)],
        vec![("authorization", &padded)],
        vec![("authorization", &doubled)],
        vec![("authorization", &commas)],
        vec![("authorization", &quoted)],
        vec![("authorization", &spaced)],
        vec![("authorization", &tabbed)],
        vec![("authorization", &basic)],
        vec![("authorization", &glued)],
        vec![("authorization", &colon)],
        vec![("authorization", &equals)],
        vec![("authorization", &bare)],
        vec![("authorization", &token_scheme)],
        vec![("authorization", &two_dots)],
        vec![("authorization", &half)],
        vec![("authorization", &unsigned)],
        vec![("authorization", &one_more)],
        vec![("authorization", &with_key)],
        vec![("authorization", &key_glued)],
        vec![("authorization", KEY)],
        vec![("authorization", &good), ("authorization", &good)],
        vec![("authorization", &good), ("authorization", "Bearer garbage")],
        vec![("authorization", "Bearer garbage"), ("authorization", &good)],
        vec![("authorization", &good), ("x-api-key", KEY)],
        vec![("authorization", "Bearer garbage"), ("x-api-key", KEY)],
        vec![("authorization", ""), ("x-api-key", KEY)],
        vec![("x-api-key", "")],
        vec![("x-api-key", "garbage")],
        vec![("x-api-key", &upper_key)],
        vec![("x-api-key", &spaced_key)],
        vec![("x-api-key", KEY), ("x-api-key", KEY)],
        vec![("x-api-key", &token)],
        vec![("x_api_key", KEY)],
        vec![("proxy-authorization", &good)],
        vec![("x-authorization", &good)],
        vec![("cookie", "access_token=x")],
    ];
    // C6: who one is is not for a header to say.
    for name in ["x-forwarded-user", "x-agent-name", "x-mcp-authorized", "x-remote-user", "x-user", "router-key"] {
        cases.push(vec![(name, "admin")]);
    }
    assert!(cases.len() >= 60);
    for headers in &cases {
        let reply = call_with(&gateway, headers).await;
        assert_eq!(reply.status, 401, "{headers:?}: {}", reply.text());
        assert!(reply.header("www-authenticate").starts_with("Bearer "), "{headers:?}");
        assert!(!reply.text().contains(&token) && !reply.text().contains(KEY), "{}", reply.text());
    }
    eventually("they are counted", || async { gateway.rejected("unauthenticated").await == cases.len() as f64 }).await;
    for query in ["access_token=x", "a=b&access_token", "ACCESS_TOKEN=x", "access%5Ftoken=x"] {
        let reply = gateway.send("POST", &format!("/mcp?{query}"), &[("authorization", &good), ("content-type", "application/json")], "{}").await;
        assert_eq!(reply.status, 400, "{query}");
    }
    eventually("they are counted", || async { gateway.rejected("query_token").await == 4.0 }).await;
    assert_eq!(target.requests().len(), before, "no target was contacted");

    // And what is well-formed works, in any case of the scheme.
    for header in
        [("authorization", good.as_str()), ("authorization", &bearer(KEY)), ("x-api-key", KEY), ("authorization", &good.replace("Bearer", "bEARER"))]
    {
        assert_eq!(call_with(&gateway, &[header]).await.status, 200);
    }
    assert_eq!(target.calls().len(), 4);
}

// C3
#[tokio::test]
async fn a_token_counts_only_if_everything_about_it_does() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::RS256).await;
    let gateway = guarded(&target, &issuer).await;
    let key = issuer.key();
    let with = |member: &str, value: Value| {
        let mut claims = issuer.claims("somebody");
        claims[member] = value;
        claims
    };
    let without = |member: &str| {
        let mut claims = issuer.claims("somebody");
        claims.as_object_mut().unwrap().remove(member);
        claims
    };
    let header = |change: &dyn Fn(&mut Header)| {
        let mut header = Header::new(key.algorithm);
        header.kid = Some(key.kid.clone());
        change(&mut header);
        header
    };
    let good = key.sign(&issuer.claims("somebody"));
    let part = |token: &str, at: usize| token.split('.').nth(at).unwrap_or_default().to_owned();
    let symmetric = |secret: &[u8]| {
        let mut header = Header::new(Algorithm::HS256);
        header.kid = Some(key.kid.clone());
        encode(&header, &issuer.claims("somebody"), &EncodingKey::from_secret(secret)).unwrap()
    };
    let jwk = key.jwk();
    let none = {
        use base64::Engine;
        let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(r#"{"alg":"none","typ":"JWT"}"#);
        format!("{encoded}.{}.", part(&good, 1))
    };
    let stranger = SigningKey::new("first", Algorithm::RS256);
    let other_kind = SigningKey::new("first", Algorithm::ES256);
    let bad: Vec<(&str, String)> = vec![
        ("wrong aud", key.sign(&with("aud", json!("another-service")))),
        ("aud in another case", key.sign(&with("aud", json!("Transom")))),
        ("aud list without us", key.sign(&with("aud", json!(["a", "b"])))),
        ("empty aud list", key.sign(&with("aud", json!([])))),
        ("aud null", key.sign(&with("aud", json!(null)))),
        ("no aud", key.sign(&without("aud"))),
        ("expired", key.sign(&with("exp", json!(seconds_from_now(-120))))),
        ("exp text", key.sign(&with("exp", json!("tomorrow")))),
        ("exp negative", key.sign(&with("exp", json!(-1)))),
        ("no exp", key.sign(&without("exp"))),
        ("nbf future", key.sign(&with("nbf", json!(seconds_from_now(300))))),
        ("nbf text", key.sign(&with("nbf", json!("soon")))),
        ("iss with trailing slash", key.sign(&with("iss", json!("https://login.example/")))),
        ("iss in another case", key.sign(&with("iss", json!("https://LOGIN.example")))),
        ("iss list", key.sign(&with("iss", json!(["https://login.example"])))),
        ("no iss", key.sign(&without("iss"))),
        ("no sub", key.sign(&without("sub"))),
        ("empty sub", key.sign(&with("sub", json!("")))),
        ("sub number", key.sign(&with("sub", json!(7)))),
        ("alg none", none),
        ("HS256 with the modulus", symmetric(jwk["n"].as_str().unwrap().as_bytes())),
        ("HS256 with the key as JSON", symmetric(jwk.to_string().as_bytes())),
        ("HS256 with nothing", symmetric(b"")),
        ("kid path", key.sign_with(&header(&|header| header.kid = Some("../../key".into())), &issuer.claims("somebody"))),
        ("kid of nobody", key.sign_with(&header(&|header| header.kid = Some("second".into())), &issuer.claims("somebody"))),
        ("empty kid", key.sign_with(&header(&|header| header.kid = Some(String::new())), &issuer.claims("somebody"))),
        ("crit", key.sign_with(&header(&|header| header.crit = Some(vec!["b64".into()])), &issuer.claims("somebody"))),
        ("other key, same kid", stranger.sign(&issuer.claims("somebody"))),
        ("other kind of key, same kid", other_kind.sign(&issuer.claims("somebody"))),
        (
            "key in the header",
            stranger.sign_with(&header(&|header| header.jwk = serde_json::from_value(stranger.jwk()).ok()), &issuer.claims("somebody")),
        ),
        ("claims exchanged", format!("{}.{}.{}", part(&good, 0), part(&key.sign(&issuer.claims("admin")), 1), part(&good, 2))),
        (
            "header exchanged",
            format!("{}.{}.{}", part(&key.sign_with(&header(&|header| header.typ = None), &json!({})), 0), part(&good, 1), part(&good, 2)),
        ),
        ("signature of another", format!("{}.{}.{}", part(&good, 0), part(&good, 1), part(&key.sign(&issuer.claims("admin")), 2))),
        ("signature cut", good.get(..good.len() - 4).unwrap_or_default().to_owned()),
    ];
    let before = target.requests().len();
    for (what, token) in &bad {
        let reply = call_with(&gateway, &[("authorization", &bearer(token))]).await;
        assert_eq!(reply.status, 401, "{what}: {}", reply.text());
        assert!(reply.header("www-authenticate").contains("error=\"invalid_token\""), "{what}: {}", reply.header("www-authenticate"));
    }
    assert_eq!(target.requests().len(), before, "no target was contacted");
    let fine: Vec<(&str, String)> = vec![
        ("as it should be", good.clone()),
        ("the same again", good),
        ("aud among others", key.sign(&with("aud", json!(["x", "transom"])))),
        ("a clock that is a little behind", key.sign(&with("exp", json!(seconds_from_now(-30))))),
        ("a clock that is a little ahead", key.sign(&with("nbf", json!(seconds_from_now(30))))),
        ("exp with a fraction", key.sign(&with("exp", json!(seconds_from_now(60) as f64 + 0.5)))),
        ("exp beyond all clocks", key.sign(&with("exp", json!(u64::MAX)))),
        ("no kid", key.sign_with(&header(&|header| header.kid = None), &issuer.claims("somebody"))),
        ("a long subject", key.sign(&with("sub", json!("s".repeat(3000))))),
    ];
    for (what, token) in &fine {
        assert_eq!(ask(&gateway, token).await, 200, "{what}");
    }
}

#[tokio::test]
async fn every_asymmetric_kind_of_key_works_and_an_algorithm_list_narrows_it() {
    let target = target("greeter").tool("hello", []);
    let [rsa, pss, ec, ed] = ["rsa", "pss", "ec", "ed"].map(|kid| {
        SigningKey::new(
            kid,
            match kid {
                "rsa" => Algorithm::RS256,
                "pss" => Algorithm::PS256,
                "ec" => Algorithm::ES256,
                _ => Algorithm::EdDSA,
            },
        )
    });
    let issuer = issuer(Algorithm::ES256).await;
    issuer.set_keys(vec![rsa.clone(), pss.clone(), ec.clone(), ed.clone()]);
    let mut gateway = guarded(&target, &issuer).await;
    let claims = issuer.claims("somebody");
    for key in [&rsa, &pss, &ec, &ed] {
        assert_eq!(ask(&gateway, &key.sign(&claims)).await, 200, "{:?}", key.algorithm);
    }
    gateway.reconfigure(|config| {
        if let Some(issuer) = config.authentication.as_mut().and_then(|who| who.jwt.first_mut()) {
            issuer.algorithms = vec!["ES256".into(), "HS256".into()];
        }
    });
    for (key, status) in [(&rsa, 401), (&pss, 401), (&ec, 200), (&ed, 401)] {
        assert_eq!(ask(&gateway, &key.sign(&claims)).await, status, "{:?}", key.algorithm);
    }
    let symmetric = encode(&Header::new(Algorithm::HS256), &claims, &EncodingKey::from_secret(b"x")).unwrap();
    assert_eq!(ask(&gateway, &symmetric).await, 401);
}

#[tokio::test]
async fn keys_are_rotated_without_a_restart_and_strangers_cannot_have_them_fetched_at_will() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    let gateway = guarded(&target, &issuer).await;
    let (old_key, old) = (issuer.key(), issuer.token("somebody"));
    assert_eq!(ask(&gateway, &old).await, 200);
    // A new key signs; the old one still counts.
    let new_key = SigningKey::new("second", Algorithm::ES256);
    issuer.set_keys(vec![old_key, new_key.clone()]);
    let asked = issuer.asked();
    let new = new_key.sign(&issuer.claims("somebody"));
    let answers = futures(20, || ask(&gateway, &new)).await;
    assert_eq!(answers, vec![200; 20]);
    assert_eq!(issuer.asked(), asked + 1, "one look serves all who wait for it");
    assert_eq!(ask(&gateway, &old).await, 200);
    for kid in 0..50 {
        let mut stranger = new_key.clone();
        stranger.kid = format!("kid-{kid}");
        assert_eq!(ask(&gateway, &stranger.sign(&issuer.claims("somebody"))).await, 401);
    }
    assert_eq!(issuer.asked(), asked + 1, "strangers do not make us ask");
    // An issuer that is down changes nothing.
    issuer.set_down(true);
    assert_eq!(ask(&gateway, &new).await, 200);
}

async fn futures<F: Future<Output = u16>>(count: usize, make: impl Fn() -> F) -> Vec<u16> {
    let mut tasks = Vec::new();
    for _ in 0..count {
        tasks.push(make());
    }
    let mut answers = Vec::new();
    let mut pending: Vec<_> = tasks.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|cx| {
        pending.retain_mut(|task| match task.as_mut().poll(cx) {
            std::task::Poll::Ready(answer) => {
                answers.push(answer);
                false
            }
            std::task::Poll::Pending => true,
        });
        if pending.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    answers
}

#[tokio::test]
async fn a_key_that_is_taken_out_of_the_file_no_longer_lets_anybody_in() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jwks.json");
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::EdDSA).await;
    std::fs::write(&path, issuer.jwks().to_string()).unwrap();
    let mut config = who(&issuer);
    config.jwt[0].jwks = Jwks::File(path.clone());
    let gateway = gateway().target(&target).config(|settings| settings.authentication = Some(config)).start().await;
    let old = issuer.token("somebody");
    assert_eq!(ask(&gateway, &old).await, 200, "keys of a file are there from the start");
    // Rubbish changes nothing.
    std::fs::write(&path, "{\"keys\": [").unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!(ask(&gateway, &old).await, 200);
    issuer.set_keys(vec![SigningKey::new("second", Algorithm::EdDSA)]);
    let fresh = directory.path().join("new.json");
    std::fs::write(&fresh, issuer.jwks().to_string()).unwrap();
    std::fs::rename(&fresh, &path).unwrap();
    eventually("the old key no longer counts", || async { ask(&gateway, &old).await == 401 }).await;
    assert_eq!(ask(&gateway, &issuer.token("somebody")).await, 200);
    assert_eq!(issuer.asked(), 0);
}

#[tokio::test]
async fn tokens_that_cannot_be_judged_are_put_off_and_nobody_is_let_in() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    issuer.set_down(true);
    let config = who(&issuer);
    let gateway = gateway().target(&target).config(|settings| settings.authentication = Some(config)).start().await;
    let token = bearer(&issuer.token("somebody"));
    let reply = call_with(&gateway, &[("authorization", &token)]).await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, "1"), "{}", reply.text());
    assert!(reply.text().contains("The keys of issuer https://login.example are not available"), "{}", reply.text());
    assert_eq!(reply.json()["error"]["code"], 1001);
    eventually("it is counted", || async { gateway.rejected("keys_unavailable").await == 1.0 }).await;
    assert_eq!(call_with(&gateway, &[("x-api-key", KEY)]).await.status, 200, "keys of our own do not depend on the issuer");
    assert_eq!(ask(&gateway, "garbage").await, 401);
    issuer.set_down(false);
    eventually("the keys come as soon as the issuer is back", || async { call_with(&gateway, &[("authorization", &token)]).await.status == 200 })
        .await;
}

// Error vocabulary: missing scope
#[tokio::test]
async fn a_token_without_a_needed_scope_is_told_which() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    let mut config = who(&issuer);
    config.jwt[0].scopes = vec!["mcp:read".into(), "mcp:call".into()];
    let gateway = gateway().target(&target).config(|settings| settings.authentication = Some(config)).start().await;
    let token = |member: &str, value: Value| {
        let mut claims = issuer.claims("somebody");
        claims[member] = value;
        issuer.key().sign(&claims)
    };
    eventually("the keys are there", || async { ask(&gateway, &token("scope", json!("mcp:read mcp:call"))).await == 200 }).await;
    for (member, value, status) in [
        ("scope", json!("other mcp:call mcp:read"), 200),
        ("scp", json!(["mcp:call", "mcp:read"]), 200),
        ("scp", json!("mcp:call mcp:read"), 200),
        ("scope", json!("mcp:read"), 403),
        ("scope", json!("mcp:read mcp:calls"), 403),
        ("scope", json!("mcp:read,mcp:call"), 403),
        ("scope", json!(7), 403),
        ("x", json!("mcp:read mcp:call"), 403),
    ] {
        let reply = call_with(&gateway, &[("authorization", &bearer(&token(member, value.clone())))]).await;
        assert_eq!(reply.status, status, "{member} {value}: {}", reply.text());
        if status == 403 {
            let challenge = reply.header("www-authenticate");
            assert!(challenge.contains("error=\"insufficient_scope\"") && challenge.contains("scope=\"mcp:call mcp:read\""), "{challenge}");
        }
    }
    eventually("they are counted", || async { gateway.rejected("insufficient_scope").await == 5.0 }).await;
}

// RFC 9728
#[tokio::test]
async fn clients_are_told_where_to_get_a_token() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    let mut gateway = guarded(&target, &issuer).await;
    let base = gateway.url("");
    for (path, resource) in
        [("/mcp", "/mcp"), ("/mcp/greeter", "/mcp/greeter"), ("/sse", "/sse"), ("/tools", ""), ("/status", ""), ("/mcp/%22x", "/mcp/%22x")]
    {
        let refused = gateway.get(path).await;
        assert_eq!(refused.status, 401, "{path}");
        let place = format!("{base}/.well-known/oauth-protected-resource{resource}");
        assert_eq!(refused.header("www-authenticate"), format!("Bearer resource_metadata=\"{place}\""), "{path}");
        let found = gateway.http.get(&place).await;
        assert_eq!(found.status, 200, "{place}");
        assert_eq!(
            found.json(),
            json!({"resource": format!("{base}{resource}"), "authorization_servers": ["https://login.example"], "bearer_methods_supported": ["header"]})
        );
    }
    for path in ["/.well-known/oauth-protected-resource/admin", "/.well-known/oauth-protected-resources", "/.well-known/openid-configuration"] {
        assert_eq!(gateway.get(path).await.status, 404, "{path}");
    }
    // As configured, where a proxy stands in front.
    gateway.reconfigure(|config| {
        if let Some(who) = &mut config.authentication {
            who.resource = Some("https://corp.example/tools/mcp".into());
            who.jwt[0].scopes = vec!["mcp".into()];
        }
    });
    let challenge = gateway.get("/mcp").await.header("www-authenticate").to_owned();
    assert_eq!(challenge, "Bearer resource_metadata=\"https://corp.example/.well-known/oauth-protected-resource/tools/mcp\", scope=\"mcp\"");
    for suffix in ["", "/mcp", "/tools/mcp"] {
        let document = gateway.get(&format!("/.well-known/oauth-protected-resource{suffix}")).await.json();
        assert_eq!((&document["resource"], &document["scopes_supported"]), (&json!("https://corp.example/tools/mcp"), &json!(["mcp"])));
    }
    // Nobody gives out API keys, so that there is nothing to read.
    gateway.reconfigure(|config| {
        if let Some(who) = &mut config.authentication {
            who.jwt.clear();
        }
    });
    assert_eq!(gateway.get("/mcp").await.header("www-authenticate"), "Bearer realm=\"transom\"");
    assert_eq!(gateway.get("/.well-known/oauth-protected-resource").await.status, 404);
}

#[tokio::test]
async fn scripts_are_turned_away_in_their_own_words() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    let gateway = guarded(&target, &issuer).await;
    for (method, path) in [("GET", "/tools"), ("GET", "/tools/hello"), ("POST", "/tools/hello/invoke"), ("GET", "/events"), ("GET", "/status")] {
        let refused = gateway.send(method, path, &[], "").await;
        assert_eq!(refused.status, 401, "{path}");
        assert!(refused.header("www-authenticate").starts_with("Bearer resource_metadata="), "{path}");
        let body = refused.json();
        assert_eq!((&body["success"], &body["error"]["code"]), (&json!(false), &json!("unauthenticated")), "{body}");
    }
    let called = gateway.send("POST", "/tools/hello/invoke", &[("x-api-key", KEY)], "{}").await;
    assert_eq!(called.status, 200, "{}", called.text());
    assert_eq!(gateway.send("GET", "/tools", &[("x-api-key", KEY)], "").await.json()[0]["name"], "hello");
}

// surfaces.md 3
#[tokio::test]
async fn probes_need_no_credentials_and_then_carry_no_names() {
    let (up, down) = (target("greeter-name").tool("hello", []), target("sleeper-name"));
    down.stop();
    let issuer = issuer(Algorithm::ES256).await;
    let config = who(&issuer);
    let gateway = gateway().target(&up).target(&down).config(|settings| settings.authentication = Some(config)).start().await;
    for path in ["/health", "/ready"] {
        for url in [gateway.url(path), format!("http://{}{path}", gateway.metrics_addr())] {
            let reply = gateway.http.get(&url).await;
            assert!(matches!((path, reply.status), ("/health", 200) | ("/ready", 503)), "{url} {}", reply.status);
            assert!(!reply.text().contains("-name"), "{url}: {}", reply.text());
        }
    }
    let status = gateway.send("GET", "/status", &[("x-api-key", KEY)], "").await;
    assert_eq!(status.status, 200);
    assert!(status.text().contains("greeter-name") && !status.text().contains("quarantined"), "{}", status.text());
    let admin = gateway.http.get(&format!("http://{}/status", gateway.admin_addr())).await;
    assert!(admin.json()["quarantined"].is_array(), "{}", admin.text());
}

// H6: CVE-2026-33946, CVE-2026-52869
#[tokio::test]
async fn a_session_serves_its_owner_and_is_unknown_to_everybody_else() {
    let target = target("greeter").tool("hello", []).resource("file:///a");
    let issuer = issuer(Algorithm::ES256).await;
    let gateway = guarded(&target, &issuer).await;
    let (owner, other) = (bearer(&issuer.token("owner")), bearer(&issuer.token("other")));
    let client = gateway.connect(LEGACY).header("authorization", &owner).open().await;
    let session = client.session().unwrap();
    let request = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 9, "method": method, "params": params}).to_string();
    let verbs: [(&str, &str, String); 6] = [
        ("POST", "call", request("tools/call", json!({"name": "hello", "arguments": {}}))),
        ("POST", "list", request("tools/list", json!({}))),
        ("POST", "notification", json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}).to_string()),
        ("POST", "answer", json!({"jsonrpc": "2.0", "id": "transom-1", "result": {}}).to_string()),
        ("GET", "stream", String::new()),
        ("DELETE", "end", String::new()),
    ];
    // The owner comes last, because it ends the session.
    for (who, credentials, expected) in [("nobody", None, 401), ("other", Some(&other), 404), ("owner", Some(&owner), 200)] {
        for (method, what, body) in &verbs {
            let mut headers =
                vec![("mcp-session-id", session.as_str()), ("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
            headers.extend(credentials.map(|token| ("authorization", token.as_str())));
            let reply = gateway.http.open(method, &gateway.url("/mcp"), &headers, body.clone()).await.unwrap();
            let expected = match (expected, *what) {
                (200, "notification") => 202,
                // It was asked nothing.
                (200, "answer") => 400,
                _ => expected,
            };
            assert_eq!(reply.status, expected, "{who} {what}");
            if expected == 404 {
                let text = reply.whole().await.unwrap().text();
                let unknown = gateway
                    .send(
                        method,
                        "/mcp",
                        &[("mcp-session-id", "x"), ("content-type", "application/json"), ("accept", "*/*"), ("authorization", &owner)],
                        body.clone(),
                    )
                    .await;
                assert_eq!(text, unknown.text(), "{what}: somebody else's session looks like one that never was");
            }
        }
    }
    assert_eq!(target.calls().len(), 1);

    // The same for the transport where the stream is the session.
    let sse = gateway.connect_at("/sse", "2024-11-05").header("authorization", &owner).open_sse().await;
    assert_eq!(sse.call("hello", json!({})).await.status, 202);
    let endpoint = sse.endpoint();
    for (credentials, expected) in [(None, 401), (Some(&other), 404), (Some(&owner), 202)] {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(credentials.map(|token| ("authorization", token.as_str())));
        assert_eq!(gateway.http.send("POST", &endpoint, &headers, request("ping", json!({}))).await.status, expected);
    }
    assert_eq!(gateway.get("/sse").await.status, 401);
}

// H13, J8
#[tokio::test]
async fn one_principal_cannot_take_all_sessions_and_streams() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    let gateway = guarded(&target, &issuer).await;
    let greedy = bearer(&issuer.token("greedy"));
    let client = gateway.connect(LEGACY).header("authorization", &greedy).open().await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}});
    let mut last = String::new();
    for number in 1..100 {
        // Another token of the same subject is the same principal.
        let token = if number % 2 == 0 { bearer(&issuer.token("greedy")) } else { greedy.clone() };
        let reply = gateway.post_mcp(&[("authorization", &token)], hello.to_string()).await;
        assert_eq!(reply.status, 200, "{number}: {}", reply.text());
        last = reply.header("mcp-session-id").to_owned();
    }
    let full = gateway.post_mcp(&[("authorization", &greedy)], hello.to_string()).await;
    assert_eq!((full.status, full.header("retry-after")), (503, "1"), "{}", full.text());
    assert_eq!(client.call("hello", json!({})).await.status, 200, "nobody's session was taken away");
    assert_eq!(gateway.post_mcp(&[("x-api-key", KEY)], hello.to_string()).await.status, 200, "others do not notice");
    assert_eq!(gateway.send("DELETE", "/mcp", &[("authorization", &greedy), ("mcp-session-id", &last)], "").await.status, 200);
    assert_eq!(gateway.post_mcp(&[("authorization", &greedy)], hello.to_string()).await.status, 200, "an ended session makes room");
    tokio::time::sleep(Duration::from_millis(6_100)).await;
    assert_eq!(gateway.post_mcp(&[("authorization", &greedy)], hello.to_string()).await.status, 200, "sessions at rest make room for their owner");
    assert_eq!(client.call("hello", json!({})).await.status, 200, "and their ids stay good");

    let mut streams = Vec::new();
    for number in 0..32 {
        let path = if number % 2 == 0 { "/events" } else { "/sse" };
        let stream = gateway.http.open("GET", &gateway.url(path), &[("authorization", &greedy)], "").await.unwrap();
        assert_eq!(stream.status, 200, "{number}");
        streams.push(stream);
    }
    for path in ["/events", "/sse"] {
        assert_eq!(gateway.send("GET", path, &[("authorization", &greedy)], "").await.status, 503, "{path}");
    }
    assert_eq!(client.try_stream().await.status, 503);
    assert_eq!(gateway.http.open("GET", &gateway.url("/events"), &[("x-api-key", KEY)], "").await.unwrap().status, 200);
    streams.pop();
    eventually("a closed stream makes room", || async {
        gateway.http.open("GET", &gateway.url("/events"), &[("authorization", &greedy)], "").await.is_ok_and(|stream| stream.status == 200)
    })
    .await;
}

/// Every kind of stream, opened with these credentials.
async fn streams(gateway: &Gateway, name: &str, value: &str) -> Vec<(&'static str, Stream)> {
    let legacy = gateway.connect(LEGACY).header(name, value).open().await;
    let modern = gateway.connect(MODERN).header(name, value).open().await;
    let open = async |path: &str| gateway.http.open("GET", &gateway.url(path), &[(name, value)], "").await.unwrap();
    vec![
        ("GET", legacy.stream().await),
        ("subscriptions/listen", modern.listen(json!({"toolsListChanged": true})).await),
        ("/events", open("/events").await),
        ("/sse", open("/sse").await),
    ]
}

async fn all_end(mut streams: Vec<(&'static str, Stream)>, limit: Duration) {
    let until = tokio::time::Instant::now() + limit;
    for (what, stream) in &mut streams {
        tokio::time::timeout_at(until, async { while stream.next().await.is_some() {} }).await.unwrap_or_else(|_| panic!("{what} did not end"));
    }
}

#[tokio::test]
async fn streams_end_with_the_token_that_opened_them() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    let gateway = guarded(&target, &issuer).await;
    let mut claims = issuer.claims("short-lived");
    // Clocks may be a minute apart, so that there are three seconds left.
    claims["exp"] = json!(seconds_from_now(-57));
    let token = bearer(&issuer.key().sign(&claims));
    let open = streams(&gateway, "authorization", &token).await;
    let mut stays = gateway.http.open("GET", &gateway.url("/events"), &[("x-api-key", KEY)], "").await.unwrap();
    all_end(open, Duration::from_secs(8)).await;
    eventually("the token is refused as well, though it was good before", || async {
        call_with(&gateway, &[("authorization", &token)]).await.status == 401
    })
    .await;
    assert!(tokio::time::timeout(Duration::from_millis(300), stays.next()).await.is_err(), "other streams stay open");
}

// C4, for principals
#[tokio::test]
async fn a_principal_that_is_taken_out_of_the_config_loses_its_streams_within_a_second() {
    let target = target("greeter").tool("hello", []);
    let issuer = issuer(Algorithm::ES256).await;
    let mut gateway = guarded(&target, &issuer).await;
    let of_robot = streams(&gateway, "x-api-key", KEY).await;
    let token = bearer(&issuer.token("somebody"));
    let mut of_token = gateway.http.open("GET", &gateway.url("/events"), &[("authorization", &token)], "").await.unwrap();
    // The same again is no change.
    gateway.reconfigure(|_| {});
    gateway.reconfigure(|config| {
        if let Some(who) = &mut config.authentication {
            who.api_keys = vec![api_key("other", "another key")];
        }
    });
    all_end(of_robot, Duration::from_secs(1)).await;
    assert_eq!(call_with(&gateway, &[("x-api-key", KEY)]).await.status, 401);
    assert_eq!(call_with(&gateway, &[("x-api-key", "another key".replace(' ', "-").as_str())]).await.status, 401);
    assert!(tokio::time::timeout(Duration::from_millis(300), of_token.next()).await.is_err(), "who is still welcome keeps its streams");
    assert_eq!(issuer.asked(), 1, "the keys of an issuer that stays are kept");
    // Half of a config file can be a whole one: what guards something does not fall away while it runs.
    let after_a_restart = gateway.reconfigure(|config| config.authentication = None);
    assert_eq!(after_a_restart, ["policies.authentication"]);
    assert_eq!(call_with(&gateway, &[]).await.status, 401);
    assert!(tokio::time::timeout(Duration::from_millis(300), of_token.next()).await.is_err(), "and nobody notices");
}

// C3, C6, D4: what a client shows us is ours alone.
#[tokio::test]
async fn credentials_reach_neither_targets_nor_logs() {
    let logs = logs::capture();
    let modern = target("modern").era(Era::Modern).tool("hello", []);
    let legacy = target("legacy").tool("bye", []);
    let issuer = issuer(Algorithm::ES256).await;
    let key = unique("canary-api-key");
    let mut config = who(&issuer);
    config.api_keys.push(api_key("canary", &key));
    let gateway = gateway().target(&modern).target(&legacy).config(|settings| settings.authentication = Some(config)).start().await;
    let subject = unique("canary-subject");
    let token = issuer.token(&subject);
    eventually("the keys are there", || async { ask(&gateway, &token).await == 200 }).await;
    let trusted: Vec<String> =
        ["x-forwarded-user", "x-agent-name", "router-key", "mcp-init-host", "x-mcp-authorized", "cookie", "proxy-authorization"]
            .into_iter()
            .map(str::to_owned)
            .chain((0..33).map(|number| format!("x-canary-{number}")))
            .collect();
    for (name, value) in [("authorization", bearer(&token)), ("x-api-key", key.clone()), ("authorization", bearer(&key))] {
        let mut connect = gateway.connect(LEGACY).header(name, &value);
        for header in &trusted {
            connect = connect.header(header, "canary-header");
        }
        let client = connect.open().await;
        for tool in ["hello", "bye"] {
            assert_eq!(client.call(tool, json!({})).await.status, 200);
        }
        assert_eq!(gateway.send("POST", "/tools/hello/invoke", &[(name, value.as_str())], "{}").await.status, 200);
        // Refused ones are no more talkative.
        call_with(&gateway, &[(name, value.as_str()), (name, value.as_str())]).await;
    }
    call_with(&gateway, &[("authorization", &bearer(&format!("{token}x")))]).await;
    let signature = token.rsplit('.').next().unwrap_or_default();
    for target in [&modern, &legacy] {
        for request in target.requests() {
            let all = format!("{:?} {}", request.headers, request.text());
            for secret in [&token, &key, &subject, signature, "canary-header"] {
                assert!(!all.contains(secret), "a target saw {secret}: {all}");
            }
            assert!(request.header("authorization").is_none() && request.header("x-api-key").is_none(), "{all}");
        }
    }
    let text = logs.text();
    assert!(text.contains("keys of the issuer are in use"), "the log was captured");
    for secret in [&token, &key, &subject, signature] {
        assert!(!text.contains(secret), "the log has {secret}");
    }
}

// security.md 4: authentication counts as what a public listener needs, and is not lost while it runs.
#[tokio::test]
async fn a_public_bind_with_authentication_starts_and_stays_closed() {
    let issuer = issuer(Algorithm::ES256).await;
    let config = who(&issuer);
    let mut gateway = gateway()
        .config(|settings| {
            settings.listen = SocketAddr::from(([0, 0, 0, 0], 0));
            settings.authentication = Some(config);
        })
        .start()
        .await;
    let url = format!("http://127.0.0.1:{}/mcp", gateway.addr().port());
    assert_eq!(gateway.http.post_json(&url, &json!({})).await.status, 401);
    let needs_restart = gateway.reconfigure(|config| config.authentication = None);
    assert_eq!(needs_restart, ["policies.authentication"]);
    assert_eq!(gateway.http.post_json(&url, &json!({})).await.status, 401);
}
