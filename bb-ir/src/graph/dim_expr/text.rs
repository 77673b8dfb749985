//! Formats dim expressions for messages, listings and written models.

use super::{DimExpr, Factor};
use std::fmt;

impl fmt::Display for DimExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let sign = if term.times < 0 { "-" } else { "+" };
            match i {
                0 if term.times < 0 => f.write_str("-")?,
                0 => {}
                _ => write!(f, " {sign} ")?,
            }
            let times = term.times.unsigned_abs();
            if times != 1 {
                write!(f, "{times}*")?;
            }
            for (j, factor) in term.factors.iter().enumerate() {
                if j > 0 {
                    f.write_str("*")?;
                }
                write!(f, "{factor}")?;
            }
        }
        match (self.terms.is_empty(), self.constant) {
            (true, c) => write!(f, "{c}"),
            (false, 0) => Ok(()),
            (false, c) if c < 0 => write!(f, " - {}", c.unsigned_abs()),
            (false, c) => write!(f, " + {c}"),
        }
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A name with other characters is written in parentheses, because it could be read as an
            // expression.
            Factor::Name(name) if name.chars().all(|c| c.is_alphanumeric() || "_.:/".contains(c)) => {
                f.write_str(name)
            }
            Factor::Name(name) => write!(f, "({name})"),
            Factor::Quotient(a, by) if a.only_name().is_some() => write!(f, "floor({a}/{by})"),
            Factor::Quotient(a, by) => write!(f, "floor(({a})/{by})"),
            Factor::Greater(a, b) => write!(f, "max({a}, {b})"),
            Factor::Lesser(a, b) => write!(f, "min({a}, {b})"),
        }
    }
}
