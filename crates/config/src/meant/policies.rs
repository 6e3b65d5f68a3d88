//! What `policies.authentication` and `policies.authorization` mean: who may come in, and who may do what.

use super::Meaning;
use super::network::{Server, is_readable_on_the_way};
use super::value::Resolved;
use crate::file::{self, ALGORITHMS, Text};
use crate::problem::{Problem, did_you_mean};
use crate::shape::{Any, OneOrMany, quoted};
use crate::written::{Entries, Place, Written};
use std::collections::HashSet;
use transom_gateway::authorize::Policy;
use transom_gateway::config::{ApiKey, Authentication, Effect, Jwks, JwtIssuer, Rule};

/// What logs and metrics can carry comfortably.
const LONGEST_ID: usize = 128;

/// What messages say of the URL of an issuer's keys.
const JWKS: Server<'static> = Server {
    what: "an issuer's server",
    default_path: "/",
    credentials: "key sets are public; remove the part before `@`",
    example: "https://login.corp.example/.well-known/jwks.json",
};

impl Meaning<'_> {
    /// Who may come in.
    pub(super) fn authentication(&self, written: &Written<file::Authentication>) -> Option<Authentication> {
        let (section, place) = written.get()?;
        let jwt = section.jwt.value.as_ref().map_or(&[][..], |OneOrMany(issuers)| issuers);
        let keys = section.api_keys.value.as_deref().unwrap_or_default();
        let is_unread =
            (section.jwt.value.is_none() && !section.jwt.is_missing()) || (section.api_keys.value.is_none() && !section.api_keys.is_missing());
        if jwt.is_empty() && keys.is_empty() && !is_unread {
            self.note(Problem::error(place, "`authentication` lets nobody in").label("neither `jwt` nor `apiKeys`").help(
                "add `jwt: { issuer: …, audiences: […], jwks: { url: … } }` or `apiKeys: [{ id: …, hash: … }]`, or remove it to let everybody in",
            ));
        }
        Some(Authentication {
            jwt: jwt.iter().filter_map(Written::get).filter_map(|(issuer, place)| self.issuer(issuer, place)).collect(),
            api_keys: self.api_keys(keys),
            resource: self.resource(&section.resource),
        })
    }

    fn issuer(&self, written: &file::Jwt, place: Place) -> Option<JwtIssuer> {
        let required = [
            ("issuer", written.issuer.is_missing(), "the `iss` of its tokens, to the letter"),
            (
                "audiences",
                written.audiences.is_missing(),
                "a list; one of them must be in a token's `aud`, so that tokens for others do not count here",
            ),
            ("jwks", written.jwks.is_missing(), "`{ url: … }` or `{ file: … }`, where its keys are"),
        ];
        for (key, _, help) in required.iter().filter(|(_, is_missing, _)| *is_missing) {
            self.note(Problem::error(place, format!("`jwt` has no `{key}`")).help(format!("add `{key}`: {help}")));
        }
        if let (Some([]), at) = (written.audiences.value.as_deref(), written.audiences.place) {
            self.note(Problem::error(at, "`audiences` is empty").help("name at least one; a token for anybody is a token for nobody"));
        }
        let issuer = self.filled("issuer", &written.issuer);
        let audiences = self.all(&written.audiences, |meaning, text| meaning.word("audiences", text.text, text.place));
        let jwks = written.jwks.get().and_then(|(jwks, at)| self.jwks(jwks, at));
        let algorithms = self.algorithms(&written.algorithms);
        let scopes = self.all(&written.scopes, |meaning, text| meaning.word("scopes", text.text, text.place));
        Some(JwtIssuer { issuer: issuer?.text, audiences, jwks: jwks?, algorithms, scopes })
    }

    /// An item of a list that has to say something.
    fn word(&self, key: &str, text: String, place: Place) -> Option<String> {
        if text.trim().is_empty() {
            self.note(Problem::error(place, format!("an item of `{key}` is empty")).help("remove it"));
            return None;
        }
        Some(text)
    }

    fn jwks(&self, written: &file::Jwks, place: Place) -> Option<Jwks> {
        if written.url.is_missing() && written.file.is_missing() {
            self.note(Problem::error(place, "`jwks` has neither `url` nor `file`").help("add the one that tells where the issuer's keys are"));
        }
        if let (Some((_, url)), Some((_, file))) = (written.url.get(), written.file.get()) {
            let second = if url.start > file.start { url } else { file };
            self.note(Problem::error(second, "`jwks` has both `url` and `file`").label("the second one").help("keep one of them"));
        }
        let ca = written.tls.value.as_ref().and_then(|tls| self.authorities(tls));
        if let Some(file) = self.path("file", &written.file) {
            return Some(Jwks::File(file));
        }
        let resolved = self.filled("url", &written.url)?;
        let url = self.url(&resolved, &JWKS)?;
        if is_readable_on_the_way(&url) {
            self.note(
                Problem::warning(resolved.place, "these keys come over plain http, where others can replace them")
                    .help("use `https://`: whoever replaces the keys can make tokens of their own"),
            );
        }
        Some(Jwks::Url { url, ca })
    }

    fn algorithms(&self, written: &Written<Vec<Written<Text>>>) -> Vec<String> {
        if let (Some([]), at) = (written.value.as_deref(), written.place) {
            self.note(Problem::error(at, "`algorithms` is empty").help(format!("remove it, or name some of: {}", ALGORITHMS.join(", "))));
        }
        if written.is_missing() {
            return ALGORITHMS.map(str::to_owned).to_vec();
        }
        self.all(written, |meaning, algorithm| {
            if ALGORITHMS.contains(&algorithm.text.as_str()) {
                return Some(algorithm.text);
            }
            let problem = Problem::error(algorithm.place, format!("`{}` is not an algorithm that tokens may be signed with", algorithm.written));
            let choices = ALGORITHMS.join(", ");
            let help = if algorithm.text.starts_with("HS") {
                format!("with a symmetric one, whoever can check a token can make one; it can be: {choices}")
            } else {
                match did_you_mean(&algorithm.text, ALGORITHMS).filter(|_| !algorithm.secret) {
                    Some(meant) => format!("did you mean `{meant}`? it can be: {choices}"),
                    None => format!("it can be: {choices}"),
                }
            };
            meaning.note(problem.help(help));
            None
        })
    }

    fn api_keys(&self, written: &[Written<file::ApiKey>]) -> Vec<ApiKey> {
        let (mut ids, mut hashes) = (HashSet::new(), HashSet::new());
        let mut keys = Vec::new();
        for (key, place) in written.iter().filter_map(Written::get) {
            let Some(key) = self.api_key(key, place) else { continue };
            let twice = |what: &str| Problem::error(place, format!("two API keys have the same {what}")).label("the second one");
            if !ids.insert(key.id.clone()) {
                self.note(twice("id").help("rules, limits and logs tell principals apart by their ids"));
            }
            if !hashes.insert(key.hash) {
                self.note(twice("hash").help("one key cannot say who of two is calling; make another one"));
            }
            keys.push(key);
        }
        keys
    }

    fn api_key(&self, written: &file::ApiKey, place: Place) -> Option<ApiKey> {
        if written.id.is_missing() {
            self.note(Problem::error(place, "this API key has no `id`").help("add `id: …`; logs and rules call its owner so"));
        }
        if written.hash.is_missing() {
            self.note(Problem::error(place, "this API key has no `hash`").help("add `hash: sha256:…` with what `printf %s KEY | sha256sum` prints"));
        }
        let id = self.filled("id", &written.id).filter(|id| {
            let fits = id.text.chars().count() <= LONGEST_ID && !id.text.chars().any(char::is_control);
            if !fits {
                self.note(Problem::error(id.place, format!("an `id` has at most {LONGEST_ID} characters, none of them a control character")));
            }
            fits
        });
        let hash = self.hash(&written.hash);
        let claims = written.claims.value.as_ref().map(|claims| self.claims(claims)).unwrap_or_default();
        Some(ApiKey { id: id?.text, hash: hash?, claims })
    }

    /// The value is never quoted: somebody may have written the key itself.
    fn hash(&self, written: &Written<Text>) -> Option<[u8; 32]> {
        let resolved = self.filled("hash", written)?;
        let text = resolved.text.trim();
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
        let Some(digits) = digits else {
            let is_bare = text.len() == 64 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
            let help = if is_bare { "put `sha256:` before it" } else { "write `sha256:` and what `printf %s KEY | sha256sum` prints" };
            self.note(Problem::error(resolved.place, "`hash` is not `sha256:` and 64 hexadecimal digits").help(help));
            return None;
        };
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks(2)) {
            *byte = pair.iter().fold(0, |byte, digit| byte * 16 + char::from(*digit).to_digit(16).unwrap_or(0) as u8);
        }
        Some(hash)
    }

    /// Any JSON, with variables replaced as everywhere else in a config.
    fn claims(&self, Entries(entries): &Entries<Any>) -> serde_json::Map<String, serde_json::Value> {
        let mut claims = serde_json::Map::new();
        for (key, value) in entries {
            let mut json = String::new();
            let mut spell = |scalar: &Any, written: &Written<Any>| match scalar {
                Any::Text(text) => {
                    let text = Written::new(Text(text.clone()), written.place);
                    quoted(&self.text(&text).map(|expanded| expanded.text).unwrap_or_default())
                }
                other => self.spelled(other, written.place),
            };
            Any::write_json(value, &mut spell, &mut json);
            match serde_json::from_str(&json) {
                Ok(value) => {
                    claims.insert(key.value.clone().unwrap_or_default(), value);
                }
                Err(_) => self.note(Problem::error(value.place, "this claim has a number that is too large or is nested too deeply")),
            }
        }
        claims
    }

    fn resource(&self, written: &Written<Text>) -> Option<String> {
        let resolved = self.filled("resource", written)?;
        let url: Option<http::Uri> = resolved.text.trim().parse().ok();
        let fits = |url: &http::Uri| {
            matches!(url.scheme_str(), Some("http" | "https")) && url.authority().is_some_and(|authority| !authority.as_str().contains('@'))
        };
        if url.is_none_or(|url| !fits(&url)) || resolved.text.contains('#') {
            self.note(
                Problem::error(resolved.place, format!("`{}` is not a URL by which clients could know this gateway", resolved.written))
                    .help("write it as clients do, like `https://mcp.corp.example/mcp`"),
            );
            return None;
        }
        Some(resolved.text.trim().to_owned())
    }

    /// Who may do what.
    pub(super) fn authorization(&self, written: &Written<file::Authorization>) -> Option<Vec<Rule>> {
        let (section, place) = written.get()?;
        if section.rules.is_missing() {
            self.note(
                Problem::error(place, "`authorization` has no `rules`")
                    .help("add `rules: […]`; an empty list allows nothing, and without `authorization` everything is allowed"),
            );
        }
        let (rules, place) = section.rules.get()?;
        let read: Vec<(Rule, Resolved<'_>)> = rules.iter().filter_map(Written::get).filter_map(|(rule, place)| self.rule(rule, place)).collect();
        if read.len() == rules.len() && read.iter().all(|(rule, _)| rule.effect != Effect::Allow) {
            let problem = Problem::warning(place, "no rule allows anything, so that nothing is allowed");
            self.note(problem.help("add `{ allow: 'true' }` to allow what no other rule forbids"));
        }
        let (meant, resolved): (Vec<Rule>, Vec<Resolved<'_>>) = read.into_iter().unzip();
        self.check_rules(&meant, &resolved);
        Some(meant)
    }

    fn rule<'w>(&self, written: &'w file::Rule, place: Place) -> Option<(Rule, Resolved<'w>)> {
        let effects =
            [("allow", &written.allow, Effect::Allow), ("deny", &written.deny, Effect::Deny), ("require", &written.require, Effect::Require)];
        let mut given: Vec<_> = effects.into_iter().filter(|(_, expression, _)| !expression.is_missing()).collect();
        given.sort_by_key(|(_, expression, _)| expression.place.start);
        match given.as_slice() {
            [] => {
                // A misspelt effect is told already.
                if !self.problems.borrow().is_noted_at(place) {
                    self.note(Problem::error(place, "this rule says nothing").help("add one of `allow: …`, `deny: …` and `require: …`"));
                }
                None
            }
            [(key, expression, effect)] => {
                let resolved = self.filled(key, expression)?;
                Some((Rule { effect: *effect, expression: resolved.text.clone() }, resolved))
            }
            [(first, ..), (second, expression, _), ..] => {
                self.note(
                    Problem::error(expression.place, format!("this rule has two effects, `{first}` and `{second}`"))
                        .label("the second one")
                        .help("make two rules of it"),
                );
                None
            }
        }
    }

    /// A rule that cannot be read is an error, never skipped.
    fn check_rules(&self, rules: &[Rule], written: &[Resolved<'_>]) {
        for bad in Policy::compile(Some(rules)).err().into_iter().flatten() {
            let Some(rule) = written.get(bad.rule) else { continue };
            // What a variable held may be quoted by the message, and the offset counts within it.
            if rule.secret {
                self.note(Problem::error(rule.place, "this rule cannot be read once its variables are replaced"));
                continue;
            }
            let at = bad.offset.filter(|offset| *offset < rule.text.len());
            let place = at.map_or(rule.place, |offset| self.inside(rule.place, rule.written, &(offset..offset + 1)));
            self.note(
                Problem::error(place, bad.message)
                    .help("a rule is a CEL expression, like `jwt.role == \"admin\"` or `mcp.tool.name.startsWith(\"get_\")`"),
            );
        }
    }
}
