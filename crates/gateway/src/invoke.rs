//! Takes a call out of a call of the gateway's own `invoke_tool`: from here on it is a call of the tool inside.
//!
//! Knows how such a call is written. What the tool inside is, whether the caller may use it, and every limit, log line and metric belong to the stages
//! after this one and are the same as for any other call: none of them learns which way it came.

use crate::generation::{Kind, Own};
use crate::message::{About, Call, Context, InSession, List};
use crate::reply::Failure;
use crate::stage::{Next, Stage};
use transom_protocol::Method;
use transom_protocol::json::{Json, Kind as JsonKind};
use transom_protocol::message::Params;
use transom_protocol::write::{self, Edit};
use transom_registry::Rejected;

/// The stage.
#[derive(Clone)]
pub struct Invoke;

impl<N: Next<InSession<Box<Call>>>> Stage<InSession<Box<Call>>, N> for Invoke {
    type Reply = N::Reply;

    async fn handle(&self, mut request: InSession<Box<Call>>, next: &N) -> Result<N::Reply, Failure> {
        let call = &mut *request.message;
        // The name is looked at first: it decides for all other calls.
        if call.name == Own::Invoke.name() && call.method == Method::CallTool && request.context.generation.discovers() {
            unwrap(&request.context, call)?;
        }
        next.run(request).await
    }
}

impl<N: Next<InSession<List>>> Stage<InSession<List>, N> for Invoke {
    type Reply = N::Reply;

    async fn handle(&self, list: InSession<List>, next: &N) -> Result<N::Reply, Failure> {
        next.run(list).await
    }
}

/// Makes the call inside of it. `_meta`, `task`, answers to questions and all else stay as they are: they speak of the call, whatever it calls.
fn unwrap(context: &Context, call: &mut Call) -> Result<(), Failure> {
    let (name, arguments) = inside(call.params.get("arguments")).map_err(|(reason, why)| {
        if let Some(entry) = context.generation.named(Kind::Tool, Own::Invoke.name()) {
            let _ = context.about.set(About { slot: None, entry: Some(entry.clone()), task: None });
        }
        Failure::arguments(reason, why)
    })?;
    let quoted = write::quoted(&name);
    let params = write::edited(
        call.params.json(),
        |key, _| {
            if key.is("name") {
                Edit::Set(quoted.as_bytes())
            } else if key.is("arguments") {
                arguments.map_or(Edit::Drop, |arguments| Edit::Set(arguments.raw().as_bytes()))
            } else {
                Edit::Keep
            }
        },
        &[],
    );
    call.params = Params::trusted(params);
    call.name = name;
    // The definition of `invoke_tool` names no headers, so that a client cannot send those of the tool inside.
    call.param_headers = None;
    Ok(())
}

type Inside<'a> = (String, Option<Json<'a>>);

/// The tool and its arguments. Whether those are good is for that tool to say.
fn inside(outer: Option<Json<'_>>) -> Result<Inside<'_>, (Rejected, &'static str)> {
    let Some(outer) = outer.filter(|outer| outer.kind() == JsonKind::Object) else {
        return Err((Rejected::NotAnObject, "arguments must be an object with `name` and `arguments`"));
    };
    let (mut name, mut arguments) = (None, None);
    for (key, value) in outer.members() {
        match &*key.text() {
            "name" => name = value.string(),
            "arguments" => arguments = Some(value),
            _ => return Err((Rejected::UnknownArgument, "only `name` and `arguments` are taken; arguments of the tool belong into `arguments`")),
        }
    }
    match name {
        None => Err((Rejected::Invalid, "`name` is missing or not a string; it is the name of the tool to call")),
        Some(name) if name == Own::Invoke.name() => Err((Rejected::Invalid, "`invoke_tool` does not call itself; name the tool to call")),
        Some(name) => Ok((name.into_owned(), arguments)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_is_a_name_and_arguments_and_nothing_else() {
        let read = |text| inside(Some(Json::trusted(text))).map(|(name, arguments)| (name, arguments.map(Json::raw)));
        assert_eq!(read(r#"{"name":"a"}"#), Ok(("a".into(), None)));
        assert_eq!(read(r#"{"arguments":{"x":[1]},"name":"a\u0062"}"#), Ok(("ab".into(), Some(r#"{"x":[1]}"#))));
        // Not ours to judge.
        assert_eq!(read(r#"{"name":"","arguments":[1]}"#), Ok((String::new(), Some("[1]"))));
        for (text, reason) in [
            (r#"{}"#, Rejected::Invalid),
            (r#"{"name":7}"#, Rejected::Invalid),
            (r#"{"name":null,"arguments":{}}"#, Rejected::Invalid),
            (r#"{"name":"invoke_tool","arguments":{}}"#, Rejected::Invalid),
            (r#"{"name":"a","city":"Oslo"}"#, Rejected::UnknownArgument),
            (r#"[]"#, Rejected::NotAnObject),
            (r#""a""#, Rejected::NotAnObject),
        ] {
            assert_eq!(read(text).map_err(|(reason, _)| reason), Err(reason), "{text}");
        }
        assert!(inside(None).is_err());
    }
}
