//! Which tools a module holds, by what was asked for.

use super::names::camel;
use super::{Function, Namespace, Options};
use std::collections::HashSet;

/// A namespace of the module, and what of it is there.
pub type Chosen<'n, 't> = (&'n Namespace<'t>, Vec<&'n Function<'t>>);

/// What is asked for, in order. A server that is asked for and has nothing of it is there, and empty.
pub fn chosen<'n, 't>(namespaces: &'n [Namespace<'t>], options: &Options) -> Vec<Chosen<'n, 't>> {
    let (server, tool) = (given(&options.server), given(&options.tool));
    let filter = given(&options.filter).map(|text| Filter::read(text, namespaces)).filter(|filter| !filter.is_blank);
    let servers: Vec<&Namespace<'t>> = match server {
        Some(server) => closest(namespaces, server, |namespace| (namespace.raw(), namespace.name.as_str())),
        None => namespaces.iter().collect(),
    };
    let mut chosen = Vec::new();
    for namespace in servers {
        let functions: Vec<&Function<'t>> = match tool.filter(|_| server.is_some()) {
            Some(tool) => closest(&namespace.functions, tool, |function| (function.tool.own_name, function.name.as_str())),
            None => namespace.functions.iter().collect(),
        };
        let Some(filter) = &filter else {
            chosen.push((namespace, functions));
            continue;
        };
        let functions: Vec<&Function<'t>> = functions.into_iter().filter(|function| filter.admits(namespace, function)).collect();
        if !functions.is_empty() {
            chosen.push((namespace, functions));
        }
    }
    chosen
}

fn given(option: &Option<String>) -> Option<&str> {
    option.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

/// Those that a name means: by the name that others gave, else by the one it has here, else by what the name would become.
fn closest<'n, T>(all: &'n [T], wanted: &str, names: impl Fn(&T) -> (&str, &str)) -> Vec<&'n T> {
    let raw: Vec<&T> = all.iter().filter(|one| names(one).0 == wanted).collect();
    if !raw.is_empty() {
        return raw;
    }
    let here: Vec<&T> = all.iter().filter(|one| names(one).1 == wanted).collect();
    if !here.is_empty() {
        return here;
    }
    let Some(wanted) = camel(wanted) else { return Vec::new() };
    all.iter().filter(|one| camel(names(one).0).as_deref() == Some(wanted.as_str())).collect()
}

impl Namespace<'_> {
    fn raw(&self) -> &str {
        self.server.unwrap_or("virtual")
    }

    /// Every way to write which server is meant: `github-api`, `githubApi`, `github_api`.
    fn spellings(&self) -> [String; 3] {
        let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '_' };
        [self.raw().to_owned(), self.name.clone(), self.raw().chars().map(plain).collect()]
    }
}

/// `a,b__c`: whole servers and single tools.
struct Filter<'f> {
    is_blank: bool,
    /// What is no server.
    tools: HashSet<&'f str>,
    /// Namespaces.
    servers: HashSet<String>,
}

impl<'f> Filter<'f> {
    fn read(text: &'f str, namespaces: &[Namespace<'_>]) -> Filter<'f> {
        let mut tools: HashSet<&str> = text.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        let is_blank = tools.is_empty();
        let wanted = |namespace: &&Namespace<'_>| namespace.spellings().iter().any(|name| tools.contains(name.as_str()));
        let whole: Vec<&Namespace<'_>> = namespaces.iter().filter(wanted).collect();
        for name in whole.iter().flat_map(|namespace| namespace.spellings()) {
            tools.remove(name.as_str());
        }
        Filter { is_blank, tools, servers: whole.iter().map(|namespace| namespace.name.clone()).collect() }
    }

    fn admits(&self, namespace: &Namespace<'_>, function: &Function<'_>) -> bool {
        let Function { tool, name, .. } = function;
        let spelled = |server: &str| [tool.own_name, name.as_str()].iter().any(|tool| self.tools.contains(format!("{server}__{tool}").as_str()));
        self.servers.contains(&namespace.name)
            || self.tools.contains(tool.name)
            || tool.qualified.is_some_and(|qualified| self.tools.contains(qualified))
            || (!self.tools.is_empty() && namespace.spellings().iter().any(|server| spelled(server)))
    }
}
