//! Evaluates rules, within bounds: a loop over what somebody sent may take only so many steps, whatever it is nested in.

use super::subject::Asked;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, LiteralValue};
use cel::common::types::{CelBool, CelInt, CelString, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::parser::Expression;
use cel::{Context, Env, ExecutionError, Value};
use regex::{Regex, RegexBuilder};
use std::cell::{Cell, RefCell};
use std::sync::{Arc, LazyLock};

/// Elements that the loops of one evaluation may visit, all together.
const STEPS: i64 = 20_000;
/// A loop that keeps what it makes (`map`, `filter`) costs memory as well: each element counts as many.
const KEPT: i64 = 40;
/// No name that can be written begins with `@`.
const RANGE: &str = "@range";
const KEPT_RANGE: &str = "@kept_range";
const MATCHES: &str = "@matches";
/// What the compiled form of a pattern may weigh.
const PATTERN: usize = 1 << 20;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    // The optional library is left out: `has` says the same, and one way to write a thing is enough for a policy.
    let base = Env::stdlib();
    let mut environment = base.with_optional_support(false);
    let added = environment
        .add_overload(RANGE, "range_dyn", vec![DYN_TYPE], |arguments| visit(arguments, 1))
        .and_then(|()| environment.add_overload(KEPT_RANGE, "kept_range_dyn", vec![DYN_TYPE], |arguments| visit(arguments, KEPT)))
        .and_then(|()| environment.add_overload(MATCHES, "matches_dyn_dyn", vec![DYN_TYPE, DYN_TYPE], matches));
    // Without them every rule with a loop fails, which counts against the caller.
    if let Err(error) = added {
        tracing::error!(%error, "loops and patterns in authorization rules are not available");
    }
    Arc::new(environment)
});

thread_local! {
    static LEFT: Cell<i64> = const { Cell::new(0) };
    /// The patterns of the rule that is being evaluated.
    static PATTERNS: RefCell<Arc<[Regex]>> = RefCell::new(Arc::from([]));
}

/// The functions and macros that rules have.
pub fn environment() -> &'static Arc<Env> {
    &ENVIRONMENT
}

/// Makes a loop count what it is about to visit.
pub fn bound(comprehension: &mut ComprehensionExpr) {
    let keeps = matches!(comprehension.accu_init.expr, Expr::List(_));
    let range = std::mem::take(&mut comprehension.iter_range);
    let func_name = if keeps { KEPT_RANGE } else { RANGE }.to_owned();
    comprehension.iter_range = Expression { id: range.id, expr: Expr::Call(CallExpr { func_name, target: None, args: vec![range] }) };
}

fn visit<'b, 'v>(mut arguments: Vec<CowVal<'b, 'v>>, cost: i64) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let range = arguments.pop().ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let visits = range.as_sizer().map_or(0, |sizer| *sizer.size().inner());
    let left = LEFT.get().saturating_sub(visits.saturating_mul(cost).max(1));
    LEFT.set(left);
    if left < 0 { Err(ExecutionError::function_error("loop", "too many elements")) } else { Ok(range) }
}

/// Compiles a pattern, once for all evaluations. The engine takes linear time; what the compiled form weighs is bounded.
pub fn pattern(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(pattern).size_limit(PATTERN).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "this pattern is too large: repeat less, or split it".to_owned(),
        _ => "this is not a pattern that `matches` understands".to_owned(),
    })
}

/// Makes `text.matches("…")` ask for the pattern of this number.
pub fn use_pattern(call: &mut CallExpr, number: usize) {
    let text = call.target.take().map(|target| *target).or_else(|| (call.args.len() == 2).then(|| call.args.remove(0)));
    let number = LiteralValue::Int(i64::try_from(number).unwrap_or(i64::MAX).into());
    let number = Expression { id: call.args.last().map_or(0, |pattern| pattern.id), expr: Expr::Literal(number) };
    call.func_name = MATCHES.to_owned();
    call.args = text.into_iter().chain([number]).collect();
}

fn matches<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let [text, number] = arguments.as_slice() else { return Err(ExecutionError::MissingArgumentOrTarget) };
    let (text, number): (&dyn Val, &dyn Val) = (text.as_ref(), number.as_ref());
    let (Some(text), Some(number)) = (text.downcast_ref::<CelString>(), number.downcast_ref::<CelInt>()) else {
        return Err(ExecutionError::function_error("matches", "not a text"));
    };
    let found = PATTERNS
        .with_borrow(|patterns| usize::try_from(*number.inner()).ok().and_then(|at| patterns.get(at).map(|regex| regex.is_match(text.inner()))));
    let found = found.ok_or_else(|| ExecutionError::function_error("matches", "no such pattern"))?;
    Ok(CowVal::Owned(Box::new(CelBool::from(found))))
}

/// Why a rule gave no answer. Never with a value in it: this may be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Something is missing or of another kind than the rule expects.
    Failed,
    /// It is neither true nor false.
    NotBoolean,
    /// It depends on the arguments of a tool that is only being listed.
    AwaitsArguments,
}

/// Whether an expression of a rule with these patterns holds.
pub fn holds(expression: &Expression, patterns: &Arc<[Regex]>, asked: &Asked<'_>) -> Result<bool, NoAnswer> {
    LEFT.set(STEPS);
    if !patterns.is_empty() {
        PATTERNS.replace(patterns.clone());
    }
    asked.awaits_arguments();
    let mut context = Context::with_env(environment().clone());
    context.set_variable_resolver(asked);
    // Both sides of `&&` and `||` are looked at when one has no answer: an answer that comes all the same does not depend
    // on what is missing.
    let no_answer = |_| if asked.awaits_arguments() { NoAnswer::AwaitsArguments } else { NoAnswer::Failed };
    let answer = Value::resolve_val(expression, &context).map_err(no_answer)?;
    let answer: &dyn Val = answer.as_ref();
    answer.downcast_ref::<CelBool>().map(|answer| *answer.inner()).ok_or(NoAnswer::NotBoolean)
}
