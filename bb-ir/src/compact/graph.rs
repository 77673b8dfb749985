//! Encodes and decodes checked graphs.

use super::{Compact, Reader, Writer};
use crate::Error;
use crate::graph::{
    Attribute, Attributes, Dim, DimExpr, Graph, Node, Postfix, ValueId, ValueInfo, ValueType, Warning,
};

/// The maximum number of parts of an encoded dim expression. Expressions in normal form have fewer.
const PARTS: usize = 1 << 10;

impl Compact for ValueId {
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<ValueId, Error> {
        u32::read(from).map(ValueId)
    }
}

crate::__compact!(enum Dim: "a dimension" { 0 => Known(n), 1 => Symbol(name), 2 => Computed(formula), 3 => Unknown });
crate::__compact!(enum ValueType: "the type of a value" {
    0 => Unknown,
    1 => Tensor { dtype, shape },
    2 => Sequence(of),
    3 => Optional(of),
    4 => Map(key, of),
});
/// Implements the encoding of a box as the encoding of its content.
macro_rules! boxed {
    ($( $ty:ty, |$from:ident| $read:expr; )*) => { $(
        impl Compact for Box<$ty> {
            fn write(&self, to: &mut Writer) {
                self.as_ref().write(to);
            }

            fn read($from: &mut Reader<'_>) -> Result<Self, Error> {
                $read.map(Box::new)
            }
        }
    )* };
}

boxed! {
    DimExpr, |from| DimExpr::read(from);
    // `Graph::read` limits the nesting itself.
    Graph, |from| Graph::read(from);
    ValueType, |from| from.nested(ValueType::read);
}

crate::__compact!(struct ValueInfo { name, ty, declared });
crate::__compact!(enum Warning: "a warning" {
    0 => Declaration { value, declared, found },
    1 => Declarations { value, first, second },
    2 => ImportedTwice { function, domain, other, used },
    3 => NotImported { domain, used },
});
crate::__compact!(enum Attribute: "an attribute" {
    0 => Float(v),
    1 => Int(v),
    2 => Text(v),
    3 => Tensor(v),
    4 => Graph(v),
    5 => Type(v),
    6 => Floats(v),
    7 => Ints(v),
    8 => Texts(v),
    9 => Tensors(v),
    10 => Graphs(v),
    11 => Types(v),
});

impl Compact for Attributes {
    fn write(&self, to: &mut Writer) {
        self.iter().count().write(to);
        for (name, attribute) in self.iter() {
            name.to_owned().write(to);
            attribute.write(to);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Attributes, Error> {
        let entries: Vec<(String, Attribute)> = Vec::read(from)?;
        let in_order = entries.is_sorted_by(|(a, _), (b, _)| a < b);
        if in_order { Ok(Attributes::new(entries)) } else { Err(from.fault("attributes in order")) }
    }
}

impl Compact for Node {
    fn write(&self, to: &mut Writer) {
        let Node { name, domain, op_type, opset, inputs, outputs, attributes, metadata } = self;
        name.write(to);
        domain.write(to);
        op_type.write(to);
        opset.write(to);
        inputs.write(to);
        outputs.write(to);
        attributes.write(to);
        metadata.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Node, Error> {
        from.count_node()?;
        Ok(Node {
            name: Compact::read(from)?,
            domain: Compact::read(from)?,
            op_type: Compact::read(from)?,
            opset: Compact::read(from)?,
            inputs: Compact::read(from)?,
            outputs: Compact::read(from)?,
            attributes: Compact::read(from)?,
            metadata: Compact::read(from)?,
        })
    }
}

impl Compact for Graph {
    fn write(&self, to: &mut Writer) {
        let Graph { name, values, inputs, outputs, constants, captures, nodes, imports } = self;
        name.write(to);
        values.write(to);
        inputs.write(to);
        outputs.write(to);
        constants.write(to);
        captures.write(to);
        nodes.write(to);
        imports.write(to);
    }

    fn read(from: &mut Reader<'_>) -> Result<Graph, Error> {
        from.nested(|from| {
            Ok(Graph {
                name: Compact::read(from)?,
                values: Compact::read(from)?,
                inputs: Compact::read(from)?,
                outputs: Compact::read(from)?,
                constants: Compact::read(from)?,
                captures: Compact::read(from)?,
                nodes: Compact::read(from)?,
                imports: Compact::read(from)?,
            })
        })
    }
}

/// An expression is encoded as its parts in postfix order. The decoder evaluates the parts to an
/// expression.
impl Compact for DimExpr {
    fn write(&self, to: &mut Writer) {
        let mut count = 0usize;
        self.postfix(&mut |_| count += 1);
        count.write(to);
        self.postfix(&mut |part| match part {
            Postfix::Number(n) => {
                to.bytes(&[0]);
                n.write(to);
            }
            Postfix::Name(name) => {
                to.bytes(&[1]);
                name.to_owned().write(to);
            }
            Postfix::Add => to.bytes(&[2]),
            Postfix::Multiply => to.bytes(&[3]),
            Postfix::Quotient(by) => {
                to.bytes(&[4]);
                by.write(to);
            }
            Postfix::Greater => to.bytes(&[5]),
            Postfix::Lesser => to.bytes(&[6]),
        });
    }

    fn read(from: &mut Reader<'_>) -> Result<DimExpr, Error> {
        let count = usize::read(from)?;
        if count > PARTS {
            return Err(from.fault("a dim expression of few parts"));
        }
        let mut stack: Vec<DimExpr> = Vec::new();
        for _ in 0..count {
            let part = match from.byte()? {
                0 => Some(DimExpr::from(i64::read(from)?)),
                1 => Some(DimExpr::name(&String::read(from)?)),
                4 => {
                    let by = i64::read(from)?;
                    stack.pop().filter(|_| by > 0).and_then(|a| a.floor_div(by))
                }
                op @ (2 | 3 | 5 | 6) => match (stack.pop(), stack.pop()) {
                    (Some(b), Some(a)) => match op {
                        2 => a.plus(&b),
                        3 => a.times(&b),
                        5 => a.greater(&b),
                        _ => a.lesser(&b),
                    },
                    _ => None,
                },
                _ => None,
            };
            stack.push(part.ok_or_else(|| from.fault("a part of a dim expression"))?);
        }
        match <[DimExpr; 1]>::try_from(stack) {
            Ok([whole]) => Ok(whole),
            Err(_) => Err(from.fault("one dim expression")),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::Limits;

    #[test]
    fn dim_expressions_come_back() {
        let [a, b] = ["a", "b"].map(DimExpr::name);
        let sum = a.plus(&b).unwrap();
        for expr in [
            DimExpr::from(-3),
            a.clone(),
            sum.times(&b).unwrap().minus(&DimExpr::from(5)).unwrap(),
            a.times(&a).unwrap().scaled(-2).unwrap().plus(&b).unwrap().floor_div(3).unwrap(),
            a.lesser(&b.scaled(2).unwrap()).unwrap().greater(&sum).unwrap().plus(&a).unwrap(),
        ] {
            let mut to = Writer::default();
            expr.write(&mut to);
            let limits = Limits::default();
            let read = DimExpr::read(&mut Reader::new(&to.bytes, &[], &limits)).unwrap();
            assert_eq!(read, expr);
        }
    }

    #[test]
    fn nesting_is_bounded() {
        // A sequence of sequences of sequences, and so on.
        let bytes = vec![2u8; 10_000];
        let limits = Limits::default();
        let read = ValueType::read(&mut Reader::new(&bytes, &[], &limits));
        assert!(matches!(read, Err(Error::Limit { name: Some("nesting"), .. })), "{read:?}");
    }
}
