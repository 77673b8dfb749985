//! The cases of all primitives and all topics, as a list.

use super::{Subject, TestEnd, cases, topics};
use bb_core::runtime::catch;
use bb_ir::op::Primitive;

/// A test case of a primitive or a topic.
#[derive(Debug, Clone, Copy)]
pub struct Test {
    /// The name of the method, or of the topic.
    pub name: &'static str,
    run: fn(&Subject<'_>),
}

impl Test {
    /// Runs the test on a backend. A failure is a panic, which is caught after the panic hook has run.
    ///
    /// # Errors
    ///
    /// The message of the panic.
    pub fn run(&self, on: &Subject<'_>) -> Result<TestEnd, String> {
        catch(|| on.case(self.name, self.run))
    }
}

macro_rules! of_primitives {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        fn of_primitives() -> Vec<Test> {
            vec![$( Test { name: Primitive::$name.spec().method, run: cases::$method } ),*]
        }
    };
}

macro_rules! of_topics {
    ([] $($topic:ident)*) => {
        const TOPICS: &[Test] = &[$( Test { name: stringify!($topic), run: topics::$topic } ),*];
    };
}

bb_ir::for_each_primitive!(of_primitives);
crate::__for_each_topic!(of_topics);

/// Lists the cases of the primitives in the order of the op table, followed by the topics.
///
/// # Examples
///
/// ```
/// # fn failures<B: bb::Backend>(backend: &B) -> Vec<(&'static str, String)> {
/// use bb::conformance::{Subject, tests};
/// let subject = Subject::new(backend);
/// tests().iter().filter_map(|test| Some((test.name, test.run(&subject).err()?))).collect()
/// # }
/// ```
pub fn tests() -> Vec<Test> {
    of_primitives().into_iter().chain(TOPICS.iter().copied()).collect()
}
