//! Rewrites the tree of a template so that it charges its work to the account of the rendering.
//!
//! Each operator that creates, compares or copies values is replaced by a filter of [`operators`], or a filter is inserted around its
//! operand. The tree of the library cannot be changed in place, so a new tree is built. [`source`](super::source) limits its depth.

use super::methods::METHOD;
use super::operators::{
    CONCAT, ITEM, ITERATED, KEPT, MACRO, MUL, PLAIN, SEARCHED, SLICE, SPREAD, TURN, WEIGHED,
};
use super::values;
use minijinja::machinery::Span;
use minijinja::machinery::ast::{
    AutoEscape, BinOp, BinOpKind, Call, CallArg, CallBlock, Compare, CompareOp, CompareOpKind, Const,
    EmitExpr, Expr, Filter, FilterBlock, ForLoop, GetAttr, GetItem, IfCond, IfExpr, List, Macro, Map, Set,
    SetBlock, Spanned, Stmt, Template, Test, UnaryOp, UnaryOpKind, Var, WithBlock,
};
use minijinja::{Error, ErrorKind, Value};

/// Rewrites the statement of a whole template.
pub(super) fn template<'a>(stmt: &Stmt<'a>) -> Result<Stmt<'a>, Error> {
    let mut statements = Vec::new();
    let span = match stmt {
        Stmt::Template(template) => {
            for child in &template.children {
                statement(child, &mut statements)?;
            }
            template.span()
        }
        other => {
            statement(other, &mut statements)?;
            Span::default()
        }
    };
    Ok(Stmt::Template(Spanned::new(Template { children: statements }, span)))
}

fn body<'a>(statements: &[Stmt<'a>]) -> Result<Vec<Stmt<'a>>, Error> {
    let mut out = Vec::with_capacity(statements.len());
    for stmt in statements {
        statement(stmt, &mut out)?;
    }
    Ok(out)
}

/// Rewrites a body, and inserts a call of a filter at its beginning. The result of the filter is ignored.
fn body_with<'a>(filter: &'static str, statements: &[Stmt<'a>], span: Span) -> Result<Vec<Stmt<'a>>, Error> {
    let mut out = vec![call(filter, span)];
    for stmt in statements {
        statement(stmt, &mut out)?;
    }
    Ok(out)
}

/// Returns a statement that calls a filter. The filter returns false, so the statement has no other effect.
fn call<'a>(filter: &'static str, span: Span) -> Stmt<'a> {
    let expr = filtered(filter, constant(Value::from(0), span), Vec::new(), span);
    Stmt::IfCond(Spanned::new(IfCond { expr, true_body: Vec::new(), false_body: Vec::new() }, span))
}

fn statement<'a>(stmt: &Stmt<'a>, out: &mut Vec<Stmt<'a>>) -> Result<(), Error> {
    let rewritten = match stmt {
        // There is only one template, so it can neither inherit from nor include another one.
        Stmt::Template(_)
        | Stmt::Block(_)
        | Stmt::Import(_)
        | Stmt::FromImport(_)
        | Stmt::Extends(_)
        | Stmt::Include(_) => {
            let text = "`block`, `extends`, `include` and `import` are not supported";
            return Err(Error::new(ErrorKind::SyntaxError, text));
        }
        Stmt::EmitExpr(node) => {
            Stmt::EmitExpr(Spanned::new(EmitExpr { expr: expression(&node.expr)? }, node.span()))
        }
        // Emit raw text as an expression, because expressions are charged to the account.
        Stmt::EmitRaw(node) => {
            let expr = constant(Value::from_safe_string(node.raw.to_owned()), node.span());
            Stmt::EmitExpr(Spanned::new(EmitExpr { expr }, node.span()))
        }
        Stmt::ForLoop(node) => {
            let rewritten = ForLoop {
                target: target(&node.target)?,
                iter: around(ITERATED, &node.iter)?,
                filter_expr: optional(node.filter_expr.as_ref())?,
                recursive: node.recursive,
                body: body_with(TURN, &node.body, node.span())?,
                else_body: body(&node.else_body)?,
            };
            Stmt::ForLoop(Spanned::new(rewritten, node.span()))
        }
        Stmt::IfCond(node) => {
            let expr = expression(&node.expr)?;
            let (true_body, false_body) = (body(&node.true_body)?, body(&node.false_body)?);
            Stmt::IfCond(Spanned::new(IfCond { expr, true_body, false_body }, node.span()))
        }
        Stmt::WithBlock(node) => {
            let pair = |(name, value): &(Expr<'a>, Expr<'a>)| Ok((target(name)?, assigned(name, value)?));
            let assignments = node.assignments.iter().map(pair).collect::<Result<_, Error>>()?;
            Stmt::WithBlock(Spanned::new(WithBlock { assignments, body: body(&node.body)? }, node.span()))
        }
        Stmt::Set(node) => {
            let rewritten = Set { target: target(&node.target)?, expr: assigned(&node.target, &node.expr)? };
            Stmt::Set(Spanned::new(rewritten, node.span()))
        }
        Stmt::SetBlock(node) => {
            // The filter may return one of its arguments, which might be a namespace. Namespaces are refused here.
            let filter = node.filter.as_ref().map(|filter| around(PLAIN, filter)).transpose()?;
            let rewritten = SetBlock { target: target(&node.target)?, filter, body: body(&node.body)? };
            Stmt::SetBlock(Spanned::new(rewritten, node.span()))
        }
        Stmt::AutoEscape(node) => {
            let rewritten = AutoEscape { enabled: around(WEIGHED, &node.enabled)?, body: body(&node.body)? };
            Stmt::AutoEscape(Spanned::new(rewritten, node.span()))
        }
        Stmt::FilterBlock(node) => {
            let rewritten = FilterBlock { filter: expression(&node.filter)?, body: body(&node.body)? };
            Stmt::FilterBlock(Spanned::new(rewritten, node.span()))
        }
        Stmt::Macro(node) => {
            out.push(call(MACRO, node.span()));
            Stmt::Macro(macro_of(node)?)
        }
        Stmt::CallBlock(node) => {
            out.push(call(MACRO, node.span()));
            let args = arguments(&node.call.args, |argument| around(WEIGHED, argument))?;
            let call = Spanned::new(Call { expr: expression(&node.call.expr)?, args }, node.call.span());
            let rewritten = CallBlock { call, macro_decl: macro_of(&node.macro_decl)? };
            Stmt::CallBlock(Spanned::new(rewritten, node.span()))
        }
        Stmt::Continue(node) => {
            Stmt::Continue(Spanned::new(minijinja::machinery::ast::Continue, node.span()))
        }
        Stmt::Break(node) => Stmt::Break(Spanned::new(minijinja::machinery::ast::Break, node.span())),
        // The library leaves the result of `do` on its stack, so `do` is replaced by an assignment.
        Stmt::Do(node) => {
            let target = Expr::Var(Spanned::new(Var { id: "bb_done" }, node.span()));
            let expr = call_of(&node.call)?;
            Stmt::Set(Spanned::new(Set { target, expr }, node.span()))
        }
    };
    out.push(rewritten);
    Ok(())
}

fn macro_of<'a>(node: &Spanned<Macro<'a>>) -> Result<Spanned<Macro<'a>>, Error> {
    let args = node.args.iter().map(target).collect::<Result<_, _>>()?;
    let defaults = node.defaults.iter().map(expression).collect::<Result<_, _>>()?;
    let body = body_with(TURN, &node.body, node.span())?;
    Ok(Spanned::new(Macro { name: node.name, args, defaults, body }, node.span()))
}

/// Copies the target of an assignment: a variable, an attribute of a namespace, or a list of targets.
fn target<'a>(expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
    match expr {
        Expr::List(node) => {
            let items = node.items.iter().map(target).collect::<Result<_, _>>()?;
            Ok(Expr::List(Spanned::new(List { items }, node.span())))
        }
        other => expression(other),
    }
}

/// Rewrites the value of an assignment. A namespace must not be assigned to an attribute of a namespace, so that no value contains
/// itself.
fn assigned<'a>(target: &Expr<'a>, value: &Expr<'a>) -> Result<Expr<'a>, Error> {
    match target {
        Expr::GetAttr(_) => around(PLAIN, value),
        Expr::List(_) => around(ITERATED, value),
        _ => expression(value),
    }
}

fn constant<'a>(value: Value, span: Span) -> Expr<'a> {
    Expr::Const(Spanned::new(Const { value }, span))
}

fn filtered<'a>(name: &'static str, expr: Expr<'a>, args: Vec<CallArg<'a>>, span: Span) -> Expr<'a> {
    Expr::Filter(Spanned::new(Filter { name, expr: Some(expr), args }, span))
}

/// Rewrites an expression, and inserts a filter around it.
fn around<'a>(name: &'static str, expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
    Ok(filtered(name, expression(expr)?, Vec::new(), expr.span()))
}

/// Rewrites an operand of a comparison. Short constants need no filter.
fn compared<'a>(expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
    const SHORT: u64 = 1024;
    match expr {
        Expr::Const(node) if values::deep(&node.value) <= SHORT => expression(expr),
        _ => around(WEIGHED, expr),
    }
}

/// Rewrites the text, list or dictionary that is searched by `in`.
fn searched<'a>(expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
    match expr {
        Expr::Const(_) => compared(expr),
        _ => around(SEARCHED, expr),
    }
}

fn optional<'a>(expr: Option<&Expr<'a>>) -> Result<Option<Expr<'a>>, Error> {
    expr.map(expression).transpose()
}

fn arguments<'a>(
    args: &[CallArg<'a>],
    positional: impl Fn(&Expr<'a>) -> Result<Expr<'a>, Error>,
) -> Result<Vec<CallArg<'a>>, Error> {
    let argument = |arg: &CallArg<'a>| {
        Ok(match arg {
            CallArg::Pos(expr) => CallArg::Pos(positional(expr)?),
            CallArg::Kwarg(name, expr) => CallArg::Kwarg(name, positional(expr)?),
            CallArg::PosSplat(expr) => CallArg::PosSplat(around(SPREAD, expr)?),
            CallArg::KwargSplat(expr) => CallArg::KwargSplat(around(SPREAD, expr)?),
        })
    };
    args.iter().map(argument).collect()
}

fn expression<'a>(expr: &Expr<'a>) -> Result<Expr<'a>, Error> {
    let span = expr.span();
    Ok(match expr {
        Expr::Var(node) => Expr::Var(Spanned::new(Var { id: node.id }, span)),
        Expr::Const(node) => constant(values::kept(node.value.clone())?, span),
        Expr::Slice(node) => {
            let bound = |bound: Option<&Expr<'a>>| match bound {
                Some(bound) => expression(bound).map(CallArg::Pos),
                None => Ok(CallArg::Pos(constant(Value::from(()), span))),
            };
            let args =
                vec![bound(node.start.as_ref())?, bound(node.stop.as_ref())?, bound(node.step.as_ref())?];
            filtered(SLICE, expression(&node.expr)?, args, span)
        }
        Expr::UnaryOp(node) => {
            let op = if matches!(node.op, UnaryOpKind::Not) { UnaryOpKind::Not } else { UnaryOpKind::Neg };
            Expr::UnaryOp(Spanned::new(UnaryOp { op, expr: expression(&node.expr)? }, span))
        }
        Expr::BinOp(node) => binary(node)?,
        Expr::Compare(node) => {
            // Each operand except the last one is on the left side of a comparison, and `in` reads both sides.
            let has_in = node.ops.iter().any(|op| matches!(op.op, CompareOpKind::In | CompareOpKind::NotIn));
            let first = if has_in { compared(&node.expr)? } else { expression(&node.expr)? };
            let op = |op: &CompareOp<'a>| {
                let search = matches!(op.op, CompareOpKind::In | CompareOpKind::NotIn);
                let expr = if search { searched(&op.expr)? } else { compared(&op.expr)? };
                Ok(CompareOp { op: op.op, expr })
            };
            let ops = node.ops.iter().map(op).collect::<Result<_, Error>>()?;
            Expr::Compare(Spanned::new(Compare { expr: first, ops }, span))
        }
        Expr::IfExpr(node) => {
            let rewritten = IfExpr {
                test_expr: expression(&node.test_expr)?,
                true_expr: expression(&node.true_expr)?,
                false_expr: optional(node.false_expr.as_ref())?,
            };
            Expr::IfExpr(Spanned::new(rewritten, span))
        }
        Expr::Filter(node) => {
            let (expr, args) = (optional(node.expr.as_ref())?, arguments(&node.args, expression)?);
            Expr::Filter(Spanned::new(Filter { name: node.name, expr, args }, span))
        }
        Expr::Test(node) => {
            let (expr, args) = (expression(&node.expr)?, arguments(&node.args, expression)?);
            Expr::Test(Spanned::new(Test { name: node.name, expr, args }, span))
        }
        Expr::GetAttr(node) => {
            Expr::GetAttr(Spanned::new(GetAttr { expr: expression(&node.expr)?, name: node.name }, span))
        }
        Expr::GetItem(node) => {
            let (expr, key) = (expression(&node.expr)?, expression(&node.subscript_expr)?);
            match &node.subscript_expr {
                // A constant string key needs no filter, because only lists and texts are indexed by number.
                Expr::Const(key_node) if key_node.value.as_str().is_some() => {
                    Expr::GetItem(Spanned::new(GetItem { expr, subscript_expr: key }, span))
                }
                _ => filtered(ITEM, expr, vec![CallArg::Pos(key)], span),
            }
        }
        Expr::Call(node) => call_of(node)?,
        Expr::List(node) => {
            let items = node.items.iter().map(expression).collect::<Result<_, _>>()?;
            filtered(KEPT, Expr::List(Spanned::new(List { items }, span)), Vec::new(), span)
        }
        Expr::Map(node) => {
            let keys = node.keys.iter().map(compared).collect::<Result<_, _>>()?;
            let values = node.values.iter().map(expression).collect::<Result<_, _>>()?;
            filtered(KEPT, Expr::Map(Spanned::new(Map { keys, values }, span)), Vec::new(), span)
        }
    })
}

fn binary<'a>(node: &Spanned<BinOp<'a>>) -> Result<Expr<'a>, Error> {
    use BinOpKind::{
        Add, Concat, Div, Eq, FloorDiv, Gt, Gte, In, Lt, Lte, Mul, Ne, Pow, Rem, ScAnd, ScOr, Sub,
    };
    let span = node.span();
    let filter = |name| {
        Ok(filtered(name, expression(&node.left)?, vec![CallArg::Pos(expression(&node.right)?)], span))
    };
    let operator = |left, right| Expr::BinOp(Spanned::new(BinOp { op: node.op, left, right }, span));
    match node.op {
        Mul => filter(MUL),
        Concat => filter(CONCAT),
        Add => {
            let sum = operator(expression(&node.left)?, expression(&node.right)?);
            Ok(filtered(KEPT, sum, Vec::new(), span))
        }
        Eq | Ne | Lt | Lte | Gt | Gte => Ok(operator(expression(&node.left)?, compared(&node.right)?)),
        In => Ok(operator(compared(&node.left)?, searched(&node.right)?)),
        ScAnd | ScOr | Sub | Div | FloorDiv | Rem | Pow => {
            Ok(operator(expression(&node.left)?, expression(&node.right)?))
        }
    }
}

fn call_of<'a>(node: &Spanned<Call<'a>>) -> Result<Expr<'a>, Error> {
    let span = node.span();
    match &node.expr {
        Expr::GetAttr(callee) => {
            let mut args = vec![CallArg::Pos(constant(Value::from(callee.name), span))];
            args.extend(arguments(&node.args, expression)?);
            Ok(filtered(METHOD, expression(&callee.expr)?, args, span))
        }
        callee => {
            // A call of a recursive loop iterates over its argument.
            let argument = |expr: &Expr<'a>| {
                if node.args.len() == 1 { around(ITERATED, expr) } else { expression(expr) }
            };
            let args = arguments(&node.args, argument)?;
            Ok(Expr::Call(Spanned::new(Call { expr: expression(callee)?, args }, span)))
        }
    }
}
