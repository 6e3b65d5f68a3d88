//! Evaluates rules, within bounds: a loop over what somebody sent may take only so many steps, whatever it is nested in.

use super::subject::Asked;
use cel::common::ast::{CallExpr, ComprehensionExpr, Expr};
use cel::common::types::{CelBool, DYN_TYPE};
use cel::common::value::{CowVal, Val};
use cel::parser::Expression;
use cel::{Context, Env, ExecutionError, Value};
use std::cell::Cell;
use std::sync::{Arc, LazyLock};

/// Elements that the loops of one evaluation may visit, all together.
const STEPS: i64 = 20_000;
/// A loop that keeps what it makes (`map`, `filter`) costs memory as well: each element counts as many.
const KEPT: i64 = 40;
/// No name that can be written begins with `@`.
const RANGE: &str = "@range";
const KEPT_RANGE: &str = "@kept_range";

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| {
    // The optional library is left out: `has` says the same, and one way to write a thing is enough for a policy.
    let base = Env::stdlib();
    let mut environment = base.with_optional_support(false);
    let added = environment
        .add_overload(RANGE, "range_dyn", vec![DYN_TYPE], |arguments| visit(arguments, 1))
        .and_then(|()| environment.add_overload(KEPT_RANGE, "kept_range_dyn", vec![DYN_TYPE], |arguments| visit(arguments, KEPT)));
    // Without them every rule with a loop fails, which counts against the caller.
    if let Err(error) = added {
        tracing::error!(%error, "loops in authorization rules are not available");
    }
    Arc::new(environment)
});

thread_local! {
    static LEFT: Cell<i64> = const { Cell::new(0) };
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

/// What is wrong with a pattern, if something is.
pub fn wrong_pattern(pattern: &str) -> Option<String> {
    // The engine behind `matches` takes linear time; what its compiled form may weigh is bounded by its own limit.
    let mut context = Context::with_env(environment().clone());
    context.add_variable_as_val("pattern", Box::new(cel::common::types::CelString::from(pattern)));
    let program = environment().compile("''.matches(pattern)").ok()?;
    match program.execute(&context) {
        Ok(_) => None,
        Err(_) => Some("this is not a pattern that `matches` understands".to_owned()),
    }
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

/// Whether an expression holds.
pub fn holds(expression: &Expression, asked: &Asked<'_>) -> Result<bool, NoAnswer> {
    LEFT.set(STEPS);
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
