#![allow(clippy::disallowed_methods, clippy::disallowed_macros)]
use transom_json::{Limits, Tree, check};
use transom_registry::Document;
use transom_registry::suite::{Subject, Suite};
#[test]
fn all() {
    let mut files: Vec<_> = std::fs::read_dir("/tmp/suite-cases").unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let (mut passed, mut failed) = (0, 0);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let tree = Tree::from(check(text.as_bytes(), &Limits { duplicate_keys: false, ..Limits::REPLY }).unwrap());
        let suite = match Suite::read(&tree) { Ok(s) => s, Err(e) => { println!("{}: {e:#?}", file.display()); failed += 1; continue } };
        let Subject::Inline(text) = &suite.registry else { panic!() };
        match suite.run(Document { name: "x", text }) {
            Err(p) => { println!("{}: {p:#?}", file.display()); failed += 1 }
            Ok(outcomes) => for o in outcomes {
                if o.passed() { passed += 1 } else { failed += 1; println!("✗ {} · {}", file.file_name().unwrap().to_str().unwrap(), o.name); for d in o.differences { println!("    {d}") } }
            }
        }
    }
    println!("{passed} passed, {failed} failed");
}
