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
