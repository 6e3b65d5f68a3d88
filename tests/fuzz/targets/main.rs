//! The targets: each takes any bytes, and what it promises holds for all of them. One file for each, and its first lines say
//! what it promises. How they are run is the business of the library beside them.

mod args_build;
mod embedded_json;
mod env_template;
mod fields;
mod http_edge;
mod http_reply;
mod jsonpath;
mod jsonrpc_parse;
mod mux_model;
mod policy_eval;
mod projection;
mod registry_load;
mod schema_hide;
mod sse_decode;
mod stdio_frame;
mod token_open;
mod tools_ts;
mod world;

use std::process::ExitCode;
use transom_fuzz::Target;
use transom_fuzz::sys::Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: usize = 1 << 20;

static TARGETS: &[Target] = &[
    Target { name: "jsonrpc_parse", json: true, longest: 1024, memory: 8 * MIB, words: jsonrpc_parse::WORDS, run: jsonrpc_parse::run },
    Target { name: "args_build", json: true, longest: 2048, memory: 64 * MIB, words: world::WORDS, run: args_build::run },
    Target { name: "schema_hide", json: true, longest: 2048, memory: 64 * MIB, words: world::WORDS, run: schema_hide::run },
    Target { name: "registry_load", json: true, longest: 4096, memory: 64 * MIB, words: world::WORDS, run: registry_load::run },
    Target { name: "jsonpath", json: false, longest: 1024, memory: 64 * MIB, words: jsonpath::WORDS, run: jsonpath::run },
    Target { name: "projection", json: true, longest: 1536, memory: 64 * MIB, words: projection::WORDS, run: projection::run },
    Target { name: "embedded_json", json: false, longest: 1024, memory: 64 * MIB, words: &[], run: embedded_json::run },
    Target { name: "env_template", json: false, longest: 1024, memory: MIB, words: env_template::WORDS, run: env_template::run },
    Target { name: "sse_decode", json: false, longest: 1024, memory: MIB, words: sse_decode::WORDS, run: sse_decode::run },
    Target { name: "stdio_frame", json: false, longest: 512, memory: 4 * MIB, words: &[], run: stdio_frame::run },
    Target { name: "http_edge", json: false, longest: 1024, memory: MIB, words: http_edge::WORDS, run: http_edge::run },
    Target { name: "http_reply", json: false, longest: 1024, memory: MIB, words: http_reply::WORDS, run: http_reply::run },
    Target { name: "token_open", json: false, longest: 512, memory: MIB, words: token_open::WORDS, run: token_open::run },
    Target { name: "policy_eval", json: true, longest: 1536, memory: 64 * MIB, words: policy_eval::WORDS, run: policy_eval::run },
    Target { name: "tools_ts", json: true, longest: 2048, memory: 16 * MIB, words: tools_ts::WORDS, run: tools_ts::run },
    Target { name: "mux_model", json: false, longest: 160, memory: 16 * MIB, words: &[], run: mux_model::run },
];

fn main() -> ExitCode {
    transom_fuzz::main(TARGETS)
}
