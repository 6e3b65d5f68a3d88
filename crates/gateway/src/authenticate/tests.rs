use super::shares::Shares;
use super::*;

fn key(id: &str, secret: &str) -> ApiKey {
    ApiKey { id: id.into(), hash: sha256(secret.as_bytes()), claims: Map::new() }
}

fn issuer(name: &str) -> Arc<JwtIssuer> {
    let jwks = crate::config::Jwks::File("none".into());
    Arc::new(JwtIssuer { issuer: name.into(), audiences: Vec::new(), jwks, algorithms: Vec::new(), scopes: Vec::new() })
}

// H6, H9: what is bound to one principal is bound to no other.
#[test]
fn no_two_principals_have_the_same_key_and_none_is_long() {
    let token = |issuer_name: &str, subject: &str| Principal::of_token(&issuer(issuer_name), subject, Map::new(), SystemTime::now());
    let long = "s".repeat(1000);
    let all = [
        Principal::anonymous(),
        Principal::of_key(&key("anonymous", "x")),
        Principal::of_key(&key("a", "x")),
        Principal::of_key(&key(&long, "x")),
        token("a", "b"),
        token("a", "c"),
        token("b", "b"),
        token("a", &long),
        token("a", &format!("{long}s")),
        token("b", &long),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(one.key().len() <= LONGEST_KEY, "{}", one.key());
        assert!(all.iter().skip(at + 1).all(|other| other != one), "{one:?}");
    }
    assert_eq!(token("a", "b"), token("a", "b"));
    assert_eq!(Principal::of_key(&key("robot", "x")).log_name(), "key:robot");
    let name = token("https://login.example", "alice@corp.example").log_name().to_owned();
    assert!(name.len() == "jwt:".len() + 8 && name.starts_with("jwt:"), "{name}");
}

#[test]
fn each_principal_holds_its_share_and_anonymous_is_not_counted() {
    let shares = Shares::new(2);
    let (one, other) = (Principal::of_key(&key("one", "x")), Principal::of_key(&key("other", "y")));
    let held = shares.take(&one);
    let last = shares.take(&one);
    assert!(held.is_some() && last.is_some() && shares.take(&one).is_none() && shares.take(&other).is_some());
    drop(held);
    assert!(shares.take(&one).is_some());
    let anonymous: Vec<_> = (0..10).map(|_| shares.take(&Principal::anonymous())).collect();
    assert!(anonymous.iter().all(Option::is_some));
}

#[tokio::test]
async fn authentication_that_admits_nobody_lets_nobody_in() {
    let nobody = InForce::new(Some(Authentication::default()), false);
    let uri = Uri::from_static("http://localhost/mcp");
    let refused = nobody.identify(&HeaderMap::new(), &uri).await;
    assert_eq!(refused.err().and_then(|failure| failure.reason()), Some(Reject::Unauthenticated));
    assert!(!nobody.now().admits(&Principal::anonymous()));
    nobody.replace(None);
    assert!(nobody.identify(&HeaderMap::new(), &uri).await.is_ok_and(|principal| principal.is_anonymous()));
}

/// An issuer whose one key is in a file.
fn signing() -> (tempfile::TempDir, jsonwebtoken::EncodingKey, JwtIssuer) {
    let pkcs8 = aws_lc_rs::signature::Ed25519KeyPair::generate_pkcs8v1(&aws_lc_rs::rand::SystemRandom::new()).unwrap();
    let key = jsonwebtoken::EncodingKey::from_ed_der(pkcs8.as_ref());
    let jwk = jsonwebtoken::jwk::Jwk::from_encoding_key(&key, jsonwebtoken::Algorithm::EdDSA).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jwks.json");
    std::fs::write(&path, serde_json::json!({"keys": [jwk]}).to_string()).unwrap();
    let issuer = JwtIssuer { audiences: vec!["us".into()], jwks: crate::config::Jwks::File(path), ..(*issuer("https://login.example")).clone() };
    (directory, key, issuer)
}

fn head(token: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap())])
}

#[tokio::test]
async fn a_token_that_was_seen_before_is_not_verified_again() {
    let (_directory, key, issuer) = signing();
    let in_force = InForce::new(Some(Authentication { jwt: vec![issuer.clone()], ..Authentication::default() }), false);
    let uri = Uri::from_static("/mcp");
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let sign = |subject: &str| {
        let claims = serde_json::json!({"iss": "https://login.example", "aud": "us", "sub": subject, "exp": now + 60, "role": "reader"});
        jsonwebtoken::encode(&jsonwebtoken::Header::new(jsonwebtoken::Algorithm::EdDSA), &claims, &key).unwrap()
    };
    let (alice, bob) = (head(&sign("alice")), head(&sign("bob")));
    let first = in_force.identify(&alice, &uri).await.unwrap();
    let second = in_force.identify(&alice, &uri).await.unwrap();
    // One identity: whatever is remembered with it is there the second time.
    assert!(Arc::ptr_eq(&first.0, &second.0));
    assert_eq!((first.claims().get("role"), first.api_key_id()), (Some(&Value::from("reader")), None));
    assert!(!Arc::ptr_eq(&first.0, &in_force.identify(&bob, &uri).await.unwrap().0));
    // Other rules, other judgement: nothing is remembered from before.
    let elsewhere = JwtIssuer { audiences: vec!["them".into()], ..issuer };
    in_force.replace(Some(Authentication { jwt: vec![elsewhere], ..Authentication::default() }));
    assert!(in_force.identify(&alice, &uri).await.is_err() && !in_force.now().admits(&first));
}

#[tokio::test]
async fn remembered_tokens_have_a_bound() {
    let (_directory, _, issuer) = signing();
    let keys = jwks::KeySet::start(&issuer.issuer, issuer.jwks.clone());
    let verified = Verified::default();
    let principal = |expires| Principal::of_token(&Arc::new(issuer.clone()), "x", Map::new(), expires);
    let current = keys.current().unwrap();
    let (past, later) = (SystemTime::now(), SystemTime::now() + std::time::Duration::from_secs(60));
    for number in 0..30_000_u32 {
        let hash = sha256(&number.to_le_bytes());
        verified.remember(hash, &principal(later), jwks::KeysUsed::new(&keys, &current));
        assert!(verified.find(&hash).is_some());
    }
    assert!(verified.len() <= 10_000, "{}", verified.len());
    verified.remember([7; 32], &principal(past), jwks::KeysUsed::new(&keys, &current));
    assert!(verified.find(&[7; 32]).is_none(), "a token that has expired meanwhile");
}
