//! A macro that implements the `Backend` trait for a backend over an engine.

/// Implements `bb::Backend` for a struct whose field `whole` is a [`Whole`](crate::Whole).
///
/// ```text
/// bb_engines::implement_backend!(Rten);
/// ```
#[macro_export]
macro_rules! implement_backend {
    ($backend:ty) => {
        $crate::implement_backend!(@ [] $backend, false);

        impl $backend {
            /// Returns the engine's counts so far.
            pub fn counts(&self) -> $crate::Counts {
                self.whole.counts()
            }
        }
    };
    (@ [$($bounds:tt)*] $backend:ty, $whole_graphs:expr) => {
        impl $($bounds)* $crate::bb::Backend for $backend {
            type Tensor = $crate::Host;
            type Error = $crate::EngineError;

            $crate::bb::ir::for_each_primitive!($crate::__forward_primitives);
            $crate::bb::__forward_execute!(Self::run);

            // Not forwarded, because the elements of a constant stay in host memory.
            fn constant(
                &self,
                value: &$crate::bb::TensorData,
            ) -> ::core::result::Result<$crate::Host, $crate::EngineError> {
                value.prepare().map_err($crate::bb::Error::from)?;
                ::core::result::Result::Ok(value.clone().into())
            }

            fn wrapped(error: &$crate::EngineError) -> ::core::option::Option<&$crate::bb::Error> {
                error.wrapped()
            }

            // True for an engine that is one part of a combined backend, so that the runtime does not probe
            // it: `declines` reports its gaps.
            fn runs_whole_graphs(&self) -> ::core::primitive::bool {
                $whole_graphs
            }

            fn declines(
                &self,
                graph: &$crate::bb::ir::graph::Graph,
                node: &$crate::bb::ir::graph::Node,
            ) -> ::core::option::Option<::std::string::String> {
                self.whole.declines(graph, node)
            }

            fn to_host(
                &self,
                x: &$crate::Host,
            ) -> ::core::result::Result<$crate::bb::TensorData, $crate::EngineError> {
                ::core::result::Result::Ok(x.data().clone())
            }

            fn compile(
                &self,
                module: $crate::bb::Module,
                options: &$crate::bb::CompileOptions,
            ) -> ::core::result::Result<
                ::std::boxed::Box<dyn $crate::bb::Executable<Self>>,
                $crate::EngineError,
            > {
                self.whole.compile(self, module, options)
            }
        }

        impl $($bounds)* $backend {
            fn run(
                &self,
                graph: &$crate::bb::GraphProto,
                inputs: ::std::collections::HashMap<::std::string::String, $crate::Host>,
                attrs: $crate::bb::BackendAttrs<'_>,
            ) -> ::core::result::Result<
                ::std::collections::HashMap<::std::string::String, $crate::Host>,
                $crate::EngineError,
            > {
                self.whole.run(self, graph, inputs, attrs)
            }
        }
    };
}

/// Writes the methods of all primitives except `constant`. Each runs a graph of one node through `execute`.
#[doc(hidden)]
#[macro_export]
macro_rules! __forward_primitives {
    ($( $(#[$doc:meta])*
       $name:ident $since:literal = $method:ident
       ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
       -> $output:ident $({ $($fact:tt)* })?; )*) => {
        $( $crate::__forward_primitive!($method); )*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __forward_primitive {
    (constant) => {};
    ($method:ident) => {
        $crate::bb::__forward_method!($method);
    };
}
