//! The macro that declares a vendor's operations.

/// Declares an author's own operations. Models refer to them by domain and name.
///
/// A row has the grammar of `bb`'s own tables: documentation, the name in models, the first opset of the domain that
/// contains it, the method, operands before the `;`, parameters after it with their defaults, and the result. The
/// definition of the operation follows `=>`:
///
/// - `body: function`: a function that calls other operations and is generic over [`B: Ops`](crate::ext::Ops), like the
///   bodies of `bb`. The operation then runs on every backend, and is faster on a backend with a kernel.
/// - `types: function`: there is no body. The [function](crate::ext::TypesOf) returns the types of the results, and a
///   backend without a kernel refuses the operation before anything runs.
/// - `pattern: function`, once for each pattern: a function like a body. If the backend has a kernel for the operation,
///   and a plan contains the steps that the function records, the operation replaces these steps. Commutative operands
///   may have either order; an order that gives the first operand the shape of the result is tried first. A `Float`
///   parameter matches any number, and a `Bool` parameter both values. If a pattern ignores a `Bool` parameter, the kernel
///   gets the value that gives the body the same steps, and compiling fails if there is none. A pattern has one result.
///   It is matched on operands with the element type and the rank of that result; other operands also match if the
///   function records the same steps for them. With `pattern: function where condition`, only steps whose operands satisfy the
///   [condition](crate::ext::Accepts) are replaced, for a kernel that does not support all operands.
///
/// The names in parentheses are the enum of the operations and the trait that component code uses to call them.
///
/// # Examples
///
/// ```
/// use bb::ext::Ops;
///
/// /// `x * sigmoid(beta * gate)`.
/// fn gated<B: Ops + ?Sized>(on: &B, x: &B::Tensor, gate: &B::Tensor, beta: f64) -> Result<B::Tensor, B::Error> {
///     let scaled = on.mul(gate, &on.scalar_like(gate, beta)?)?;
///     on.mul(x, &on.sigmoid(&scaled)?)
/// }
///
/// bb::vendor! {
///     /// The operations of Acme's accelerator.
///     pub trait Acme(AcmeOp, AcmeCalls) in "com.acme" {
///         /// Computes `x * sigmoid(beta * gate)`.
///         ///
///         /// Shapes: both broadcast to the result.
///         Gated 1 = gated(x: Tensor, gate: Tensor; beta: Float = 1.0) -> Tensor => body: gated, pattern: gated;
///     }
/// }
///
/// // A backend with a kernel writes it under `#[bb::native(operations = AcmeOp)] impl Acme for MyBackend { … }`, and names
/// // the family: `#[bb(vendors(Acme))]`. Component code calls it on any backend:
/// # fn call(cpu: &bb::BackendHandle, x: &bb::Value, gate: &bb::Value) -> Result<(), bb::Error> {
/// let y = cpu.gated(x, gate, 1.5)?;
/// # Ok(())
/// # }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! vendor {
    ($($rows:tt)*) => {
        $crate::__private::vendor_rows! {
            [$crate::__vendor_rows!]
            [Tensor Optional Tensors]
            [Tensor Tensors]
            [Int OptInt Float OptFloat Bool Ints Floats Extents Type OptType Round Text Data]
            $($rows)*
        }
    };
}

/// Expands the rows of [`vendor!`](crate::vendor), after their names were checked.
#[doc(hidden)]
#[macro_export]
macro_rules! __vendor_rows {
    (
        $(#[$tdoc:meta])*
        $vis:vis trait $trait:ident ($enum:ident, $calls:ident) in $domain:literal { $(
            $(#[$doc:meta])*
            $name:ident $since:literal = $method:ident
            ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident $(= $default:expr)?),+)? )
            $(with $options:ident : $struct:ident $(<$life:lifetime>)?
              { $( $(#[$odoc:meta])* $option:ident : $okind:ident = $odefault:expr ),+ $(,)? })?
            -> $output:ident => $made:ident : $function:path $(, pattern: $pattern:path $(where $when:path)?)* ;
        )* }
    ) => {
        $crate::__private::ir::op_family! {
            [#[doc = ::core::concat!("An operation of `", $domain, "`.")] $enum, $crate::ir::op::Family::Vendor($domain)] $(
                $(#[$doc])*
                $name $since = $method ( $($input: $kind),* $(; $($param: $pkind $(= $default)?),+)? )
                $(with $options: $struct $(<$life>)? { $( $(#[$odoc])* $option: $okind = $odefault ),+ })?
                -> $output;
            )*
        }

        $crate::__family_options! { [$trait] $(
            $(#[$doc])*
            $name $since = $method ( $($input: $kind),* $(; $($param: $pkind $(= $default)?),+)? )
            $(with $options: $struct $(<$life>)? { $( $(#[$odoc])* $option: $okind = $odefault ),+ })?
            -> $output;
        )* }

        impl $crate::__private::VendorOp for $enum {
            const FAMILY: $crate::ir::op::Family = $crate::ir::op::Family::Vendor($domain);
        }

        $(#[$tdoc])*
        ///
        /// A backend implements this trait under `#[bb::native]`, and its derive names the trait: `#[bb(vendors(…))]`.
        $vis trait $trait: $crate::Backend + $crate::ext::Native<$enum> { $(
            $(#[$doc])*
            #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
            fn $method(&self $(, $input: $crate::__input_type!($kind))*
                $($(, $param: $crate::__private::ir::param_type!($pkind))+)? $(, $options: $struct)?)
                -> ::core::result::Result<$crate::__output_type!($output), Self::Error> {
                let outputs = $crate::__private::vendor_body(
                    self,
                    $enum::$name.spec(),
                    $trait::<Self>(),
                    &$crate::__list_operands!($($kind $input),*),
                    &$crate::__list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?),
                )?;
                $crate::__unwrap_output!($output, ::core::stringify!($method), outputs)
            }
        )* }

        #[doc = ::core::concat!("Returns the table of [`trait@", ::core::stringify!($trait), "`] for the derive of a backend.")]
        #[allow(non_snake_case, reason = "named after the trait, so that one path names both")]
        $vis const fn $trait<B: $trait + ?::core::marker::Sized>() -> $crate::ext::FamilyTable<B> {
            const fn native<B: $trait + ?::core::marker::Sized>() -> $crate::ext::OpSet {
                let mut bits = $crate::ext::FamilyTable::<B>::NONE;
                let mut list = <B as $crate::ext::Native<$enum>>::NATIVE;
                while let [first, rest @ ..] = list {
                    bits = bits.with(*first as u16);
                    list = rest;
                }
                bits
            }
            // If the backend did not write a method, its call is not compiled, because the conditions are constants.
            $crate::ext::FamilyTable::new(
                $crate::ir::op::Family::Vendor($domain),
                native::<B>(),
                |on, spec, inputs, params| match $enum::from_index(spec.index) {
                    $( ::core::option::Option::Some($enum::$name)
                        if const { native::<B>().contains($enum::$name as u16) } => $crate::__call_method! {
                        [$enum::$name, <B as $trait>::$method, on, inputs, params]
                        ( $($input: $kind),* ; $($( $param: $pkind ),+)? )
                        $(with $struct { $($option: $okind),+ })? -> $output
                    }, )*
                    _ => $crate::__private::vendor_call(on, spec, &[$trait::<B>()], inputs, params),
                },
            )
        }

        #[doc = ::core::concat!("Calls the operations of `", $domain, "` on backends whose type is erased.")]
        $vis trait $calls: $crate::ext::CallsRows { $(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// [`bb::Error::NoBody`] if the backend has no kernel and the operation has no body; the operation's own
            /// errors.
            #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
            fn $method(&self $(, $input: $crate::__erased_input!($kind))*
                $($(, $param: $crate::__private::ir::param_type!($pkind))+)? $(, $options: $struct)?)
                -> ::core::result::Result<$crate::__erased_output!($output), $crate::Error> {
                let outputs = self.call_row(
                    $enum::$name.spec(),
                    &$crate::__list_operands!($($kind $input),*),
                    &$crate::__list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?),
                )?;
                $crate::__unwrap_output!($output, ::core::stringify!($method), outputs)
            }
        )* }

        impl<C: $crate::ext::CallsRows + ?::core::marker::Sized> $calls for C {}

        $crate::__vendor_on! { [B] [$crate::ext::Extended<'_, B>] $trait $enum $(
            $name $method ( $($input: $kind),* $(; $($param: $pkind),+)? )
            $(with $options: $struct { $( $option: $okind ),+ })? -> $output;
        )* }
        $crate::__vendor_on! { [] [$crate::__private::Tracer] $trait $enum $(
            $name $method ( $($input: $kind),* $(; $($param: $pkind),+)? )
            $(with $options: $struct { $( $option: $okind ),+ })? -> $output;
        )* }

        const _: () = {
            const OPERATIONS: &[$crate::ext::VendorOperation] = &[ $(
                $crate::ext::VendorOperation::new(
                    $enum::$name.spec(),
                    $crate::__vendor_made_of!($made $function, [$enum::$name, $trait]
                        ( $($input: $kind),* ; $($( $param: $pkind ),+)? )
                        $(with $struct { $($option: $okind),+ })? -> $output),
                    $crate::__vendor_patterns!([$($pattern $(where $when)?),*] [$enum::$name, $trait]
                        [ ( $($input: $kind),* ; $($( $param: $pkind ),+)? )
                        $(with $struct { $($option: $okind),+ })? -> $output ]),
                ),
            )* ];
            const FAMILY: $crate::ext::VendorFamily = $crate::ext::VendorFamily::new(
                $domain,
                ::core::concat!(::core::module_path!(), "::", ::core::stringify!($trait)),
                OPERATIONS,
            );
            $crate::__private::inventory::submit! { FAMILY }
        };
    };
}

/// Implements a vendor's trait for a type that calls operations by their table rows.
#[doc(hidden)]
#[macro_export]
macro_rules! __vendor_on {
    ([$($generic:ident)?] [$type:ty] $trait:ident $enum:ident $(
        $name:ident $method:ident ( $($input:ident : $kind:ident),* $(; $($param:ident : $pkind:ident),+)? )
        $(with $options:ident : $struct:ident { $( $option:ident : $okind:ident ),+ })? -> $output:ident;
    )*) => {
        impl $(<$generic: $crate::Backend + ?::core::marker::Sized>)? $crate::ext::Native<$enum> for $type {
            const NATIVE: &'static [$enum] = &[];
        }

        impl $(<$generic: $crate::Backend + ?::core::marker::Sized>)? $trait for $type { $(
            #[allow(clippy::too_many_arguments, reason = "some operations have many operands")]
            fn $method(&self $(, $input: $crate::__input_type!($kind))*
                $($(, $param: $crate::__private::ir::param_type!($pkind))+)? $(, $options: $struct)?)
                -> ::core::result::Result<$crate::__output_type!($output), Self::Error> {
                let outputs = $crate::ext::Ops::vendor(
                    self,
                    $enum::$name.spec(),
                    &$crate::__list_operands!($($kind $input),*),
                    &$crate::__list_params!($($($pkind $param),+)? $(; $options $($okind $option),+)?),
                )?;
                $crate::__unwrap_output!($output, ::core::stringify!($method), outputs)
            }
        )* }
    };
}

/// Expands the definition of an operation: its body, or the function that returns its result types.
#[doc(hidden)]
#[macro_export]
macro_rules! __vendor_made_of {
    (body $function:path, [$op:path, $trait:path] $($row:tt)*) => {
        $crate::__private::MadeOf::Body($crate::__vendor_traced!($function, [$op, $trait] [$($row)*]))
    };
    (types $function:path, $($row:tt)*) => {
        $crate::__private::MadeOf::Kernel($function)
    };
}

/// Expands to the list of patterns of an operation.
#[doc(hidden)]
#[macro_export]
macro_rules! __vendor_patterns {
    ([$($pattern:path $(where $when:path)?),*] [$op:path, $trait:path] $row:tt) => {
        &[ $( $crate::__private::VendorPattern {
            name: ::core::stringify!($pattern),
            traced: $crate::__vendor_traced!($pattern, [$op, $trait] $row),
            accepts: &[$($crate::__vendor_condition!($when))?],
        } ),* ]
    };
}

/// Expands to the condition of a pattern.
#[doc(hidden)]
#[macro_export]
macro_rules! __vendor_condition {
    ($when:path) => {{
        // `at!` makes rustc report a function with a wrong signature at the row that names it.
        $crate::__private::at! { [$when] const CONDITION: $crate::__private::Accepts = $when; }
        CONDITION
    }};
}

/// Expands to a body or a pattern that runs on the tracer.
#[doc(hidden)]
#[macro_export]
macro_rules! __vendor_traced {
    ($function:path, [$op:path, $trait:path] [$($row:tt)*]) => {
        {
            $crate::__vendor_function!($function, [$op, $trait] $($row)*);
            function
        }
    };
}

/// Declares a function that takes operands and parameters as lists and calls a body with them.
#[doc(hidden)]
#[macro_export]
macro_rules! __vendor_function {
    ($function:path, [$op:path, $trait:path]
     ( $($input:ident : $kind:ident),* ; $($param:ident : $pkind:ident),* )
     $(with $struct:ident { $($option:ident : $okind:ident),+ })? -> $output:ident) => {
        // `at!` makes rustc report a function with a wrong signature at the row that names it.
        $crate::__private::at! { [$function]
        #[allow(unused_mut, unused_variables, reason = "some rows have no operands or no parameters")]
        fn function(
            on: &$crate::__private::Tracer,
            inputs: &[::core::option::Option<&$crate::__private::TracedTensor>],
            params: &[$crate::ir::op::Param<'_>],
        ) -> ::core::result::Result<$crate::Outputs<$crate::__private::TracedTensor>, $crate::__private::TraceStop> {
            $crate::__call_method! {
                [$op, $function, on, inputs, params]
                ( $($input: $kind),* ; $($param: $pkind),* ) $(with $struct { $($option: $okind),+ })? -> $output
            }
        }
        }
    };
}
