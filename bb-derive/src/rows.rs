//! Checks the rows of a vendor's operations before a macro expands them, and sets the span of code to the span of a token.
//!
//! `bb::vendor!` passes the names that are allowed in its rows. A mistake is reported at its token, and then nothing is
//! expanded.

use crate::ctxt::Ctxt;
use crate::nearest::did_you_mean;
use proc_macro2::{Delimiter, Group, Ident, Spacing, Span, TokenStream, TokenTree};
use quote::quote;

/// Sets the span of all tokens after the first group to the span of the tokens in this group, so that messages refer to
/// these tokens.
pub(crate) fn at(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter();
    let place = match tokens.next() {
        Some(TokenTree::Group(group)) => first_span(group.stream()),
        _ => None,
    };
    moved(tokens.collect(), place.unwrap_or_else(Span::call_site))
}

/// Returns the span of the first token. The token may be inside invisible groups, which macros create.
fn first_span(tokens: TokenStream) -> Option<Span> {
    match tokens.into_iter().next()? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::None => first_span(group.stream()),
        token => Some(token.span()),
    }
}

fn moved(tokens: TokenStream, place: Span) -> TokenStream {
    let moved = tokens.into_iter().map(|token| match token {
        TokenTree::Group(group) => {
            let span = group.span().located_at(place);
            let mut group = Group::new(group.delimiter(), moved(group.stream(), place));
            group.set_span(span);
            TokenTree::Group(group)
        }
        mut token => {
            token.set_span(token.span().located_at(place));
            token
        }
    });
    moved.collect()
}

/// Reports each method of a layer that is an operation of a family. The input is `[[methods], Family, Operations] rows…`.
pub(crate) fn not_of_layer(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter();
    let Some(TokenTree::Group(head)) = tokens.next() else { return TokenStream::new() };
    let head: Vec<TokenTree> = head.stream().into_iter().collect();
    let [TokenTree::Group(methods), _, family, ..] = head.as_slice() else { return TokenStream::new() };
    let rows: Vec<TokenTree> = tokens.collect();
    let operations: Vec<String> = rows.windows(3).filter_map(operation).map(Ident::to_string).collect();
    let mut ctxt = Ctxt::default();
    for method in methods.stream() {
        if operations.contains(&method.to_string()) {
            let message = format!(
                "`{method}` is an operation of the family `{family}`, and no method of `bb::Layer`: write it in a \
                 `#[bb::native] impl bb::ext::{family} for …`, and name the family beside `delegate`: `extensions({family})`"
            );
            ctxt.error(method, message);
        }
    }
    ctxt.into_compile_error()
}

/// Returns the name of the operation from the part `= name (…)` of a row.
fn operation(part: &[TokenTree]) -> Option<&Ident> {
    match part {
        [TokenTree::Punct(equals), TokenTree::Ident(name), TokenTree::Group(arguments)]
            if equals.as_char() == '=' && arguments.delimiter() == Delimiter::Parenthesis =>
        {
            Some(name)
        }
        _ => None,
    }
}

/// The names that rows may contain.
struct Names {
    operands: Vec<String>,
    results: Vec<String>,
    params: Vec<String>,
}

/// Checks the rows, and passes all tokens to a macro. The input is `[macro] [operands] [results] [parameters] rows…`.
pub(crate) fn vendor(tokens: TokenStream) -> TokenStream {
    let mut tokens = tokens.into_iter();
    let mut list = || match tokens.next() {
        Some(TokenTree::Group(group)) => group.stream(),
        _ => TokenStream::new(),
    };
    let rows = list();
    let names = |tokens: TokenStream| tokens.into_iter().map(|token| token.to_string()).collect();
    let names = Names { operands: names(list()), results: names(list()), params: names(list()) };
    let declared: TokenStream = tokens.collect();
    let mut ctxt = Ctxt::default();
    domain(&declared, &mut ctxt);
    let table = declared.clone().into_iter().filter_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    });
    for table in table {
        let tokens: Vec<TokenTree> = table.stream().into_iter().collect();
        tokens.split(is_end).filter(|row| !row.is_empty()).for_each(|row| check(row, &names, &mut ctxt));
    }
    let mistakes = ctxt.into_compile_error();
    if mistakes.is_empty() { quote!(#rows { #declared }) } else { mistakes }
}

/// Reports a domain without a dot: the text after `in`.
fn domain(declared: &TokenStream, ctxt: &mut Ctxt) {
    let mut tokens = declared.clone().into_iter().skip_while(|token| token.to_string() != "in");
    if let (Some(_), Some(TokenTree::Literal(domain))) = (tokens.next(), tokens.next()) {
        let text = domain.to_string();
        let text = text.trim_matches('"');
        if !text.contains('.') {
            ctxt.error(
                &domain,
                format_args!(
                    "the domain of a vendor's operations contains a dot: write `com.{text}` instead of `{text}`"
                ),
            );
        }
    }
}

fn is_end(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(end) if end.as_char() == ';')
}

/// Checks a row, which has the form `Name 1 = method(operands; parameters) -> Result => body: function, …`.
fn check(row: &[TokenTree], names: &Names, ctxt: &mut Ctxt) {
    let puncts = |at: usize, text: &str| {
        text.chars()
            .enumerate()
            .all(|(i, c)| matches!(row.get(at + i), Some(TokenTree::Punct(p)) if p.as_char() == c))
    };
    let arrow = |text: &str| (0..row.len()).find(|&at| puncts(at, text));
    let made = arrow("=>");
    if let Some(name) = without_opset(row) {
        ctxt.error(
            name,
            format_args!("say since which opset of the domain `{name}` exists: write `{name} 1 = …`"),
        );
    }
    let definition = made.and_then(|made| row.get(made + 2..)).unwrap_or_default();
    if !has_closure(definition, ctxt) {
        facts(definition, ctxt);
    }
    for (at, token) in row.iter().enumerate().take(made.unwrap_or(row.len())) {
        let TokenTree::Group(group) = token else { continue };
        match (group.delimiter(), row.get(at.wrapping_sub(1))) {
            (Delimiter::Parenthesis, Some(TokenTree::Ident(_))) => arguments(group.stream(), names, ctxt),
            // This group contains the options of the row, because it does not follow a `#`.
            (Delimiter::Brace, _) => kinds(group.stream(), &names.params, "a parameter", ctxt),
            _ => {}
        }
    }
    if let Some(TokenTree::Ident(result)) = arrow("->").and_then(|at| row.get(at + 2)) {
        named(result, &names.results, "a result", ctxt);
    }
    if let (Some(TokenTree::Ident(result)), Some(pattern)) =
        (arrow("->").and_then(|at| row.get(at + 2)), pattern(definition))
        && result == "Tensors"
    {
        ctxt.error(
            pattern,
            "a pattern has one result, and this operation returns `Tensors`, so that no plan would contain it: remove the \
             pattern, or return a `Tensor`",
        );
    }
    let says = "write `=> body: function`, a function of other operations, or `=> types: function`, which tells the types of \
                the results of a kernel";
    match made.map(|at| row.get(at + 2)) {
        None => {
            let name = row.iter().filter(|token| matches!(token, TokenTree::Ident(_)));
            if let Some(name) = name.into_iter().next() {
                ctxt.error(
                    name,
                    format_args!("the row of `{name}` does not say what the operation is made of: {says}"),
                );
            }
        }
        Some(Some(TokenTree::Ident(made))) if made == "body" || made == "types" => {}
        Some(Some(TokenTree::Ident(made))) => {
            let nearest = did_you_mean(&made.to_string(), ["body", "types"]);
            ctxt.error(made, format_args!("an operation is not made of `{made}`{nearest}; {says}"));
        }
        Some(_) => {}
    }
}

/// Returns the name of a row that does not contain the opset that introduced the operation: `Name = method(…)`.
fn without_opset(row: &[TokenTree]) -> Option<&Ident> {
    let mut tokens = row.iter().skip_while(|token| !matches!(token, TokenTree::Ident(_)));
    match (tokens.next(), tokens.next()) {
        (Some(TokenTree::Ident(name)), Some(TokenTree::Punct(equals))) if equals.as_char() == '=' => {
            Some(name)
        }
        _ => None,
    }
}

/// Reports the first closure in a row, because the definitions must be paths of functions.
fn has_closure(definition: &[TokenTree], ctxt: &mut Ctxt) -> bool {
    let closure = definition.windows(3).find_map(|window| {
        let [TokenTree::Ident(fact), TokenTree::Punct(colon), begin] = window else { return None };
        let is_closure = match begin {
            TokenTree::Punct(bar) => bar.as_char() == '|',
            TokenTree::Ident(word) => word == "move",
            _ => false,
        };
        (is_closure && colon.as_char() == ':').then_some((fact, begin))
    });
    if let Some((fact, begin)) = closure {
        let message = format_args!(
            "`{fact}` takes the path of a function, not a closure: write a `fn`, and `{fact}: its_name`"
        );
        ctxt.error(begin, message);
    }
    closure.is_some()
}

/// Checks the names of the facts that follow the function of a row: `, pattern: function`.
fn facts(tokens: &[TokenTree], ctxt: &mut Ctxt) {
    for window in tokens.windows(3) {
        let [TokenTree::Punct(comma), TokenTree::Ident(fact), TokenTree::Punct(colon)] = window else {
            continue;
        };
        // The first colon of `::` in a path has joint spacing.
        let begins = comma.as_char() == ',' && colon.as_char() == ':' && colon.spacing() == Spacing::Alone;
        if begins && fact != "pattern" {
            let text = fact.to_string();
            let nearest = match did_you_mean(&text, ["pattern"]) {
                none if none.is_empty() => "; only `pattern: function` may follow".to_owned(),
                nearest => nearest,
            };
            ctxt.error(fact, format_args!("no fact `{text}`{nearest}"));
        }
    }
}

/// Returns the first `pattern` that follows the function of a row.
fn pattern(definition: &[TokenTree]) -> Option<&Ident> {
    definition.windows(3).find_map(|window| match window {
        [TokenTree::Punct(comma), TokenTree::Ident(fact), TokenTree::Punct(colon)] => {
            (comma.as_char() == ',' && colon.as_char() == ':' && fact == "pattern").then_some(fact)
        }
        _ => None,
    })
}

/// Checks the parentheses of a method, which contain operands and, after a semicolon, parameters.
fn arguments(tokens: TokenStream, names: &Names, ctxt: &mut Ctxt) {
    let mut tokens = tokens.into_iter();
    let operands: TokenStream = tokens.by_ref().take_while(|token| !is_end(token)).collect();
    kinds(operands, &names.operands, "an operand", ctxt);
    kinds(tokens.collect(), &names.params, "a parameter", ctxt);
}

/// Checks the names that follow the colons in a list.
fn kinds(tokens: TokenStream, known: &[String], what: &str, ctxt: &mut Ctxt) {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut begins = true;
    for (at, token) in tokens.iter().enumerate() {
        let colon = matches!(tokens.get(at + 1), Some(TokenTree::Punct(p)) if p.as_char() == ':');
        if let (true, TokenTree::Ident(_), true, Some(TokenTree::Ident(kind))) =
            (begins, token, colon, tokens.get(at + 2))
        {
            named(kind, known, what, ctxt);
        }
        // An entry begins after a comma, or after its documentation.
        begins = matches!(token, TokenTree::Punct(p) if p.as_char() == ',')
            || matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket);
    }
}

fn named(kind: &Ident, known: &[String], what: &str, ctxt: &mut Ctxt) {
    let text = kind.to_string();
    if !known.contains(&text) {
        let nearest = did_you_mean(&text, known.iter().map(String::as_str));
        let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
        let known = known.join(", ");
        ctxt.error(kind, format_args!("{what} cannot be of type `{text}`{nearest}; there are {known}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_of_a_layer_that_is_an_operation_of_a_family_is_reported() {
        let message = not_of_layer(quote! {
            [[exp softmax compile], Nn, NnOp]
            /// Softmax.
            Softmax 13 = softmax(x: Tensor; axis: Int = -1) -> Tensor { Row, export: Softmax = same };
            Gelu 20 = gelu(x: Tensor) -> Tensor { Elementwise };
        });
        let message = message.to_string();
        assert!(message.contains("`softmax` is an operation of the family `Nn`"), "{message}");
        assert!(!message.contains("`exp`") && !message.contains("`compile`"), "{message}");
    }
}
