//! Which values are secrets by themselves where a text is put together from several: `pg://${DB_USER}:${DB_PASSWORD}@${DB_HOST}/${DB_NAME}` as a whole is one
//! in any case, but hosts, users and databases stand in many results, and nothing would be left of those if such a word were taken out of them.
//!
//! The name of the variable decides if it says what the value is; else the value does, and what does not look like a word, a host or a number is a secret.

use std::net::SocketAddr;

/// Variables that say where and who we are. Their values stand in a target's results for good reasons: a folder is part of many paths.
pub(super) const EVERYBODY_KNOWS: [&str; 10] = ["HOME", "HOSTNAME", "LANG", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "TZ", "USER"];

/// How a name ends whose value tells where or what something is. Not `ID`, `PATH` or `ENDPOINT`: that of a session or of a webhook lets people in.
const TELLS_A_PLACE: [&str; 23] = [
    "ACCOUNT", "DATABASE", "DB", "DIR", "DOMAIN", "EMAIL", "ENV", "FOLDER", "HOST", "HOSTNAME", "HOSTS", "MODE", "NAME", "ORG", "PORT", "PROJECT",
    "REALM", "REGION", "SCHEMA", "TENANT", "USER", "USERNAME", "ZONE",
];

/// What a word of a name has in it, how it ends, or is, whose value proves something.
const SECRET_HAS: [&str; 6] = ["PASSWORD", "PASSWD", "PASSPHRASE", "SECRET", "TOKEN", "CRED"];
const SECRET_ENDS: [&str; 4] = ["AUTH", "KEY", "PASS", "PWD"];
const SECRET_IS: [&str; 9] = ["BEARER", "COOKIE", "JWT", "KEYS", "PAT", "PHRASE", "PIN", "PW", "SALT"];

/// Whether the value of this variable (`file:` and a path for one of a file) may not come back even without the text around it.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    if EVERYBODY_KNOWS.contains(&name) {
        return false;
    }
    if name.starts_with("file:") {
        return true;
    }
    let upper = name.to_ascii_uppercase();
    let mut words = upper.split('_');
    let tells_a_place = || words.clone().next_back().is_some_and(|last| TELLS_A_PLACE.contains(&last));
    let speaks_of_secrets = |word: &str| {
        SECRET_HAS.iter().any(|part| word.contains(part)) || SECRET_ENDS.iter().any(|end| word.ends_with(end)) || SECRET_IS.contains(&word)
    };
    // `TOKEN_DIR` tells a place, unless what it holds does not look like one.
    match (tells_a_place(), words.any(speaks_of_secrets)) {
        (true, false) => false,
        (false, true) => true,
        _ => !is_common(value.trim()),
    }
}

/// Whether many results may have this in them: a word, a host, a number.
fn is_common(value: &str) -> bool {
    let is_word = || value.chars().all(|each| each.is_ascii_lowercase() || matches!(each, '-' | '_' | '.'));
    let is_number = || value.len() <= 12 && value.chars().all(|each| each.is_ascii_digit());
    is_word() || is_number() || is_host(value)
}

/// `gitlab2.corp.example`, `10.0.0.7:8080`.
fn is_host(value: &str) -> bool {
    let (host, port) = value.rsplit_once(':').unwrap_or((value, "0"));
    let is_label =
        |label: &str| (1..=63).contains(&label.len()) && label.chars().all(|each| each.is_ascii_lowercase() || each.is_ascii_digit() || each == '-');
    // The last label has letters only, which few secrets happen to have at their end.
    let is_last = |label: &str| label.len() >= 2 && label.chars().all(|each| each.is_ascii_lowercase());
    let is_name = || host.rsplit_once('.').is_some_and(|(rest, last)| is_last(last) && rest.split('.').all(is_label));
    (is_name() && port.parse::<u16>().is_ok()) || value.parse::<SocketAddr>().is_ok() || value.parse::<std::net::IpAddr>().is_ok()
}

/// The password of a URL that has one.
pub(super) fn password_of(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    Some(password).filter(|password| !password.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_text_is_a_secret_by_its_name_or_by_its_looks() {
        let table = [
            // The name says so.
            ("DB_PASSWORD", "correct-horse", true),
            ("DB_PW", "correct-horse-battery", true),
            ("PIN", "12345678", true),
            ("DBPASS", "opensesame", true),
            ("API_KEY", "abcdefgh", true),
            ("apikey", "abcdefgh", true),
            ("token", "gitlab2.corp.example", true),
            ("file:/etc/transom/token", "word", true),
            ("BASIC_AUTH", "alice:pw", true),
            // The name says that it is none.
            ("DB_NAME", "Northwind2024", false),
            ("GITLAB_HOST", "gitlab2.corp.example:8443", false),
            ("AWS_REGION", "eu-central-1", false),
            ("DB_USER", "Reporting-7", false),
            ("HOME", "/home/alice7", false),
            // A name that says both: its value decides.
            ("TOKEN_NAME", "x9Y8z7w6", true),
            ("TOKEN_DIR", "somewhere", false),
            // A name that may be either: the same.
            ("SESSION_ID", "x9Y8z7w6", true),
            ("WEBHOOK_PATH", "/T00/B00/x9Y8z7w6", true),
            ("TEAM_ID", "10023456", false),
            // A name that says nothing.
            ("KEYSPACE", "customers", false),
            ("AUTHOR", "alice", false),
            ("BASE", "gitlab2.corp.example", false),
            ("BASE", "10.0.0.7:8080", false),
            ("BASE", "10.0.0.7", false),
            ("TEAM", "10023456", false),
            ("CANARY", "CANARY-7f3a", true),
            ("X", "x9y8z7w6", true),
            ("X", "eyJhbGciOi.eyJzdWIiOiJ.c2lnbmF0dXJl", true),
            ("X", "4111111111111111", true),
            ("X", "a.b.c.9f8e7d6c5b4a", true),
        ];
        for (name, value, expected) in table {
            assert_eq!(is_secret(name, value), expected, "{name}={value}");
        }
    }

    #[test]
    fn the_password_of_a_url_is_found() {
        let table = [
            ("pg://app:s3cr3t@db/x", Some("s3cr3t")),
            ("pg://app:a:b@c@db:5432", Some("a:b@c")),
            ("pg://app@db/x:y@z", None),
            ("https://host/path?x=a:b@c", None),
            ("pg://app:@db", None),
            ("no url", None),
        ];
        for (text, expected) in table {
            assert_eq!(password_of(text), expected, "{text}");
        }
    }
}
