//! Advice to the user about an operator that nothing runs.

use bb_ir::opset::{Presence, names, presence};
use std::fmt;

/// Explains why nothing runs an operator, and what the user can do.
pub(crate) struct Advice<'a> {
    pub(crate) domain: &'a str,
    pub(crate) op: &'a str,
    pub(crate) opset: i64,
}

impl fmt::Display for Advice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Advice { domain, op, opset } = *self;
        let title = title(domain);
        match presence(domain, op, opset) {
            Presence::NotYet { since } => write!(f, "`{title}` has it from opset {since} on")?,
            Presence::Gone { since } => write!(f, "`{title}` took it away with opset {since}")?,
            Presence::There => f.write_str("there is no function for it")?,
            Presence::Foreign if !known(domain).any(|_| true) => {
                f.write_str("no operator of the domain is known")?
            }
            _ => write!(f, "`{title}` has no such operator")?,
        }
        if let Some(near) = bb_ir::nearest(op, known(domain).filter(|name| *name != op)) {
            write!(f, "; the nearest name is `{near}`")?;
        }
        write!(f, "; bind a component to it: `.component(\"{title}\", \"{op}\", …)`")
    }
}

/// Returns the operators of a domain that ONNX or `bb` defines.
fn known(domain: &str) -> impl Iterator<Item = &'static str> {
    let own = crate::onnx::operators().filter(move |o| o.domain == domain).map(|o| o.name);
    names(domain).chain(own)
}

/// Returns a domain as users write it; ONNX's own domain is `ai.onnx`.
pub(crate) fn title(domain: &str) -> &str {
    if domain.is_empty() { "ai.onnx" } else { domain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_the_opset_a_similar_name_and_what_to_bind() {
        let say = |domain, op, opset| Advice { domain, op, opset }.to_string();
        let bind = |domain: &str, op: &str| {
            format!("bind a component to it: `.component(\"{domain}\", \"{op}\", …)`")
        };
        assert_eq!(
            say("", "Rellu", 17),
            format!(
                "`ai.onnx` has no such operator; the nearest name is `Relu`; {}",
                bind("ai.onnx", "Rellu")
            )
        );
        let text = say("", "Gelu", 17);
        assert!(text.starts_with("`ai.onnx` has it from opset 20 on; "), "{text}");
        let text = say("", "Upsample", 13);
        assert!(text.starts_with("`ai.onnx` took it away with opset 10"), "{text}");
        let text = say("com.microsoft", "FusedMatMull", 1);
        assert!(text.contains("the nearest name is `FusedMatMul`"), "{text}");
        assert_eq!(
            say("com.example", "Foo", 1),
            format!("no operator of the domain is known; {}", bind("com.example", "Foo"))
        );
    }
}
