//! Converts dim expressions to postfix order, for programs that evaluate them fast.

use super::{DimExpr, Factor};

/// An instruction of a dim expression in postfix order. It pushes a value on a stack, or replaces values
/// at its top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Postfix<'a> {
    /// Pushes a number.
    Number(i64),
    /// Pushes the extent of the symbolic dimension of this name.
    Name(&'a str),
    /// Adds the two topmost values.
    Add,
    /// Multiplies the two topmost values.
    Multiply,
    /// Divides the topmost value by this positive number, and rounds down.
    Quotient(i64),
    /// Computes the maximum of the two topmost values.
    Greater,
    /// Computes the minimum of the two topmost values.
    Lesser,
}

impl DimExpr {
    /// Visits the instructions in postfix order.
    ///
    /// # Examples
    ///
    /// ```
    /// use bb_ir::graph::{DimExpr, Postfix};
    /// let twice = DimExpr::name("n").scaled(2).unwrap();
    /// let mut parts = Vec::new();
    /// twice.postfix(&mut |part| parts.push(format!("{part:?}")));
    /// assert_eq!(parts, ["Name(\"n\")", "Number(2)", "Multiply"]);
    /// ```
    pub fn postfix<'a>(&'a self, visit: &mut impl FnMut(Postfix<'a>)) {
        let mut any = self.constant != 0 || self.terms.is_empty();
        if any {
            visit(Postfix::Number(self.constant));
        }
        for term in &self.terms {
            let mut first = true;
            for factor in &term.factors {
                factor.postfix(&mut *visit);
                if !std::mem::take(&mut first) {
                    visit(Postfix::Multiply);
                }
            }
            if term.times != 1 {
                visit(Postfix::Number(term.times));
                visit(Postfix::Multiply);
            }
            if std::mem::replace(&mut any, true) {
                visit(Postfix::Add);
            }
        }
    }

    /// Visits the names. A name that occurs twice is visited twice.
    pub fn names<'a>(&'a self, visit: &mut impl FnMut(&'a str)) {
        self.postfix(&mut |part| {
            if let Postfix::Name(name) = part {
                visit(name);
            }
        });
    }
}

impl Factor {
    fn postfix<'a>(&'a self, visit: &mut dyn FnMut(Postfix<'a>)) {
        match self {
            Factor::Name(name) => visit(Postfix::Name(name)),
            Factor::Quotient(a, by) => {
                a.postfix(&mut |part| visit(part));
                visit(Postfix::Quotient(*by));
            }
            Factor::Greater(a, b) | Factor::Lesser(a, b) => {
                a.postfix(&mut |part| visit(part));
                b.postfix(&mut |part| visit(part));
                visit(if matches!(self, Factor::Greater(..)) { Postfix::Greater } else { Postfix::Lesser });
            }
        }
    }
}
