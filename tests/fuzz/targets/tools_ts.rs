//! `{tools, options}`: the module of any tools is the part that never changes, then declarations of types, then one object with a function
//! for each tool, and not one token more; what it refers to it declares, once; no type is only itself; and the order of tools does not
//! matter. It is read here by a parser that knows no other statements.

use crate::world::read;
use std::collections::{BTreeMap, BTreeSet};
use transom_json::{Json, Kind};
use transom_views::Tool;
use transom_views::typescript::{Options, module};

pub const WORDS: &[&str] = &[
    "tools",
    "options",
    "server",
    "name",
    "own",
    "virtual",
    "filter",
    "tool",
    "compact",
    "group",
    "inputSchema",
    "outputSchema",
    "description",
    "title",
    "type",
    "object",
    "array",
    "string",
    "null",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "enum",
    "const",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "nullable",
    "$ref",
    "$dynamicRef",
    "$defs",
    "$anchor",
    "$id",
    "#",
    "#/$defs/a",
    "#/$defs/b",
    "#/properties/a",
    "#a",
    "a",
    "b",
    "get_user",
    "get-user",
    "delete",
    "new",
    "constructor",
    "__proto__",
    "*/ evil(); /*",
    "x(){};import(\"fs\")//",
    "`${evil()}`",
    "</script>",
    "@ts-ignore",
    "\u{2028}",
    "\u{202e}",
    "\\",
    "",
];

/// More tools than that show nothing new.
const TOOLS: usize = 16;

pub fn run(bytes: &[u8]) {
    let Some(input) = read(bytes) else { return };
    let given: Vec<Json<'_>> =
        input.get("tools").into_iter().flat_map(Json::elements).filter(|tool| tool.kind() == Kind::Object).take(TOOLS).collect();
    let text = |json: Json<'_>, key: &str| json.get(key).and_then(Json::string).map(|text| text.into_owned());
    let named: Vec<(String, Option<String>, String)> = given
        .iter()
        .map(|tool| {
            let name = text(*tool, "name").unwrap_or_default();
            (name.clone(), text(*tool, "server"), text(*tool, "own").unwrap_or(name))
        })
        .collect();
    let tools: Vec<Tool<'_>> = named
        .iter()
        .zip(&given)
        .map(|((name, server, own_name), definition)| Tool {
            name,
            server: server.as_deref(),
            own_name,
            qualified: definition.get("qualified").is_some().then_some(own_name.as_str()),
            is_virtual: definition.get("virtual").is_some(),
            definition: *definition,
        })
        .collect();
    let asked = input.get("options").unwrap_or(Json::trusted("{}"));
    let whole = Options { group_virtual: asked.get("group").is_some(), ..Options::default() };
    let compact = Options { compact: true, ..whole.clone() };

    let written = module(&tools, &whole);
    let functions = check(&written, &module(&[], &whole));
    assert_eq!(functions, tools.len(), "a function for each tool:\n{written}");
    assert_eq!(check(&module(&tools, &compact), &module(&[], &compact)), tools.len());

    let turned: Vec<Tool<'_>> = tools.iter().rev().copied().collect();
    assert_eq!(module(&turned, &whole), written, "in another order");
    let some = Options { server: text(asked, "server"), tool: text(asked, "tool"), filter: text(asked, "filter"), ..whole.clone() };
    assert!(check(&module(&tools, &some), &module(&[], &whole)) <= tools.len());
}

/// How many functions a module has. Panics if there is anything in it that does not belong there.
fn check(module: &str, empty: &str) -> usize {
    let always = empty.strip_suffix("\nexport const tools = {};\n").expect("an empty module ends in an empty object");
    let own = module.strip_prefix(always).unwrap_or_else(|| panic!("the part that never changes did:\n{module}"));
    let mut parser = Parser { tokens: tokens(own), at: 0, module: own, declared: BTreeMap::new(), used: BTreeSet::new(), near: Vec::new() };
    let functions = parser.module();
    for name in &parser.used {
        assert!(parser.declared.contains_key(name), "{name} is used and not declared:\n{own}");
    }
    let mut ended = BTreeSet::new();
    for name in parser.declared.keys() {
        parser.ends(name, &mut Vec::new(), &mut ended);
    }
    functions
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    /// A name or a keyword.
    Word(String),
    Text,
    Number,
    /// Anything else, a character at a time but for `...`.
    Sign(&'static str),
    End,
}

static SIGNS: [&str; 19] = ["...", "{", "}", "[", "]", "(", ")", "<", ">", ":", ";", ",", "?", "|", "&", "=", "-", "/", "."];

fn tokens(module: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = module;
    while let Some(first) = rest.chars().next() {
        if first == ' ' || first == '\n' {
            rest = &rest[1..];
        } else if let Some(comment) = rest.strip_prefix("/**") {
            rest = comment.split_once("*/").unwrap_or_else(|| panic!("a comment without an end:\n{module}")).1;
        } else if first == '"' {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, letter)| {
                assert!(!letter.is_control() && !matches!(letter, '\u{2028}' | '\u{2029}'), "a string over two lines:\n{module}");
                let ends = *letter == '"' && !escaped;
                escaped = *letter == '\\' && !escaped;
                ends
            });
            rest = &rest[end.unwrap_or_else(|| panic!("a string without an end:\n{module}")).0 + 1..];
            tokens.push(Token::Text);
        } else if first.is_ascii_digit() {
            let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '.' | '+' | '-'))).unwrap_or(rest.len());
            assert!(rest[..end].parse::<f64>().is_ok(), "{} is no number:\n{module}", &rest[..end]);
            rest = &rest[end..];
            tokens.push(Token::Number);
        } else if first.is_ascii_alphabetic() || matches!(first, '_' | '$') {
            let end = rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$'))).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            let sign = SIGNS
                .iter()
                .copied()
                .find(|sign| rest.starts_with(*sign))
                .unwrap_or_else(|| panic!("{first:?} outside of strings and comments:\n{module}"));
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        }
    }
    tokens
}

struct Parser<'m> {
    tokens: Vec<Token>,
    at: usize,
    module: &'m str,
    /// Types, and those that each is a union or an intersection with.
    declared: BTreeMap<String, Vec<String>>,
    used: BTreeSet<String>,
    near: Vec<String>,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn wrong(&self, wanted: &str) -> ! {
        let near = &self.tokens[self.at.saturating_sub(8).min(self.tokens.len())..self.at.min(self.tokens.len())];
        panic!("{wanted} is missing after {near:?}:\n{}", self.module)
    }

    fn is(&mut self, sign: &'static str) -> bool {
        let is = *self.peek() == Token::Sign(sign);
        self.at += usize::from(is);
        is
    }

    fn sign(&mut self, sign: &'static str) {
        if !self.is(sign) {
            self.wrong(sign);
        }
    }

    fn name(&mut self) -> String {
        match self.next() {
            Token::Word(name) => name,
            _ => self.wrong("a name"),
        }
    }

    fn word(&mut self, word: &str) {
        if self.name() != word {
            self.wrong(word);
        }
    }

    fn module(&mut self) -> usize {
        loop {
            self.word("export");
            let name = match self.name().as_str() {
                "interface" => {
                    let name = self.name();
                    self.near.clear();
                    self.object();
                    name
                }
                "type" => {
                    let name = self.name();
                    self.sign("=");
                    self.near.clear();
                    self.joined();
                    self.sign(";");
                    name
                }
                "const" => {
                    self.word("tools");
                    self.sign("=");
                    return self.tools(false);
                }
                "declare" => {
                    self.word("const");
                    self.word("tools");
                    self.sign(":");
                    return self.tools(true);
                }
                _ => self.wrong("a declaration"),
            };
            let near = std::mem::take(&mut self.near);
            assert!(self.declared.insert(name.clone(), near).is_none(), "{name} is declared twice:\n{}", self.module);
        }
    }

    fn tools(&mut self, compact: bool) -> usize {
        let after = if compact { ";" } else { "," };
        let mut functions = 0;
        let mut namespaces = BTreeSet::new();
        self.sign("{");
        while !self.is("}") {
            let namespace = self.name();
            assert!(namespaces.insert(namespace.clone()), "{namespace} stands there twice:\n{}", self.module);
            self.sign(":");
            self.sign("{");
            let mut names = BTreeSet::new();
            while !self.is("}") {
                let name = if compact { self.signature() } else { self.function() };
                assert!(names.insert(name.clone()), "{namespace}.{name} stands there twice:\n{}", self.module);
                self.sign(after);
                functions += 1;
            }
            self.sign(after);
        }
        self.sign(";");
        if *self.peek() != Token::End {
            self.wrong("the end");
        }
        functions
    }

    fn signature(&mut self) -> String {
        let name = if *self.peek() == Token::Text {
            self.at += 1;
            "\"new\"".to_owned()
        } else {
            self.name()
        };
        self.sign("(");
        self.word("params");
        self.is("?");
        self.sign(":");
        self.reference();
        self.sign(")");
        self.sign(":");
        self.promise();
        name
    }

    fn function(&mut self) -> String {
        self.word("async");
        let name = self.signature();
        self.sign("{");
        self.word("return");
        self.word("call");
        self.sign("<");
        self.reference();
        self.sign(">");
        self.sign("(");
        self.text();
        self.sign(",");
        match self.next() {
            Token::Text => {}
            Token::Word(word) if word == "null" => {}
            _ => self.wrong("a server"),
        }
        self.sign(",");
        self.word("params");
        self.sign(")");
        self.sign(";");
        self.sign("}");
        name
    }

    fn promise(&mut self) {
        self.word("Promise");
        self.sign("<");
        self.reference();
        self.sign(">");
    }

    fn text(&mut self) {
        if self.next() != Token::Text {
            self.wrong("a string");
        }
    }

    fn reference(&mut self) {
        let name = self.name();
        self.used.insert(name);
    }

    /// A type, or several joined by one sign.
    fn joined(&mut self) {
        self.one();
        for sign in ["|", "&"] {
            if self.is(sign) {
                self.one();
                while self.is(sign) {
                    self.one();
                }
                return;
            }
        }
    }

    /// A type with any number of `[]` after it.
    fn one(&mut self) {
        let before = self.near.len();
        match self.next() {
            Token::Sign("(") => {
                self.joined();
                self.sign(")");
            }
            Token::Sign("{") => {
                self.at -= 1;
                self.object();
            }
            Token::Sign("[") => {
                self.tuple();
                self.near.truncate(before);
            }
            Token::Sign("-") => {
                if self.next() != Token::Number {
                    self.wrong("a number");
                }
            }
            Token::Text | Token::Number => {}
            Token::Word(word) => {
                let own = ["unknown", "never", "null", "undefined", "boolean", "number", "string", "true", "false"];
                if !own.contains(&word.as_str()) {
                    self.used.insert(word.clone());
                    self.near.push(word);
                }
            }
            _ => self.wrong("a type"),
        }
        while *self.peek() == Token::Sign("[") {
            self.sign("[");
            self.sign("]");
            self.near.truncate(before);
        }
    }

    fn tuple(&mut self) {
        while !self.is("]") {
            if self.is("...") {
                self.one();
            } else {
                self.joined();
                self.is("?");
            }
            if !self.is(",") {
                self.sign("]");
                return;
            }
        }
    }

    fn object(&mut self) {
        let before = self.near.len();
        self.sign("{");
        while !self.is("}") {
            match self.next() {
                Token::Sign("[") => {
                    self.word("key");
                    self.sign(":");
                    self.word("string");
                    self.sign("]");
                }
                Token::Word(_) | Token::Text => {
                    self.is("?");
                }
                _ => self.wrong("a member"),
            }
            self.sign(":");
            self.joined();
            if !self.is(";") {
                self.sign("}");
                break;
            }
        }
        self.near.truncate(before);
    }

    /// Panics if a type is a union or an intersection with itself, by whatever way.
    fn ends<'p>(&'p self, name: &'p str, way: &mut Vec<&'p str>, ended: &mut BTreeSet<&'p str>) {
        assert!(!way.contains(&name), "{name} is only itself, by {way:?}:\n{}", self.module);
        if !ended.insert(name) {
            return;
        }
        way.push(name);
        for next in self.declared.get(name).into_iter().flatten() {
            self.ends(next, way, ended);
        }
        way.pop();
    }
}
