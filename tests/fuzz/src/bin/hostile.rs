//! Targets that break what cannot be seen from inside: what the fuzzer does about them is told in `tests/limits.rs`.

use std::hint::black_box;
use std::process::ExitCode;
use transom_fuzz::Target;
use transom_fuzz::sys::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TARGETS: &[Target] = &[
    Target { name: "endless", json: false, longest: 64, memory: 1 << 20, words: &[], run: endless },
    Target { name: "greedy", json: false, longest: 64, memory: 1 << 20, words: &[], run: greedy },
    Target { name: "deep", json: false, longest: 64, memory: 1 << 20, words: &[], run: deep },
    Target { name: "waiting", json: false, longest: 64, memory: 1 << 20, words: &[], run: waiting },
    Target { name: "harmless", json: false, longest: 64, memory: 1 << 20, words: &[], run: |_| {} },
];

/// Most inputs do nothing, so that there is a count to be kept.
fn is_bad(input: &[u8]) -> bool {
    input.len() > 3
}

fn endless(input: &[u8]) {
    while is_bad(black_box(input)) {}
}

fn greedy(input: &[u8]) {
    let mut held = Vec::new();
    while is_bad(input) {
        held.push(black_box(vec![1_u8; 1 << 20]));
    }
}

fn deep(input: &[u8]) {
    if is_bad(black_box(input)) {
        deep(input);
        black_box(input);
    }
}

fn waiting(input: &[u8]) {
    while is_bad(input) {
        std::thread::park();
    }
}

fn main() -> ExitCode {
    transom_fuzz::main(TARGETS)
}
