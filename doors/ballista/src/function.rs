//! The SQL functions that run a model.

use crate::columns::{Column, element_bytes};
use crate::error::Error;
use crate::location::{ModelPlace, ModelRef};
use crate::model::{Compiled, Form, Model, Rows, check_backend};
use crate::results::Results;
use crate::stores::Places;
use crate::types;
use bb::ir::graph::Dim;
use bb::onnx::OnnxValue;
use bb::{Limits, TensorData, Value};
use datafusion::arrow::array::{ArrayRef, StructArray};
use datafusion::arrow::datatypes::{DataType as ArrowType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// The maximum number of bytes of the inputs and outputs of one run, if the query does not set the number of rows of a run.
const RUN_BYTES: usize = 32 << 20;

/// The maximum number of bytes of the results of one batch, if the query does not limit memory.
const RESULT_BYTES: usize = 1 << 30;

/// The settings of the functions in this process.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunSettings {
    /// The object stores for models with a URL.
    pub stores: Arc<dyn ObjectStoreRegistry>,
    /// The limits of models and their runs.
    pub limits: Limits,
    /// The number of threads of a backend. `None` leaves the choice to the backend.
    pub threads: Option<NonZeroUsize>,
}

impl RunSettings {
    /// Returns settings with these stores.
    pub fn new(stores: Arc<dyn ObjectStoreRegistry>) -> RunSettings {
        RunSettings { stores, limits: Limits::default(), threads: None }
    }

    /// Returns the settings with a number of threads for backends.
    #[must_use]
    pub fn with_threads(self, threads: Option<NonZeroUsize>) -> RunSettings {
        RunSettings { threads, ..self }
    }
}

/// Returns the function `bb_run(model, column, …)`. It is immutable: equal rows have equal results.
pub fn bb_run(settings: RunSettings) -> ScalarUDF {
    ScalarUDF::new_from_impl(RunFunction::new("bb_run", Volatility::Immutable, settings))
}

/// Returns the function `bb_run_volatile(model, column, …)`, for models that draw random numbers.
pub fn bb_run_volatile(settings: RunSettings) -> ScalarUDF {
    ScalarUDF::new_from_impl(RunFunction::new("bb_run_volatile", Volatility::Volatile, settings))
}

#[derive(Debug)]
struct RunFunction {
    name: &'static str,
    signature: Signature,
    settings: RunSettings,
}

// The functions of a process share the same settings, so functions of the same name are equal.
impl PartialEq for RunFunction {
    fn eq(&self, other: &RunFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for RunFunction {}

impl Hash for RunFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl RunFunction {
    fn new(name: &'static str, volatility: Volatility, settings: RunSettings) -> RunFunction {
        RunFunction { name, signature: Signature::variadic_any(volatility), settings }
    }

    fn find(&self, literal: Option<&ScalarValue>) -> Result<(ModelRef, Arc<Model>), Error> {
        let wrong = |got: String| Error::ModelArgument { function: self.name, got };
        let literal = literal.ok_or_else(|| wrong("a column".to_owned()))?;
        let text = literal.try_as_str().flatten().ok_or_else(|| wrong(literal.to_string()))?;
        let of: ModelRef = text.parse()?;
        check_backend(&of.backend)?;
        let model =
            Model::find(&of, Places { stores: &self.settings.stores, limits: &self.settings.limits })?;
        match &model.random {
            Some(op) if self.signature.volatility == Volatility::Immutable => {
                Err(Error::Random { location: of.location, op: op.clone() })
            }
            _ => Ok((of, model)),
        }
    }

    fn run(&self, args: &ScalarFunctionArgs) -> Result<ArrayRef, Error> {
        let literal = match args.args.first() {
            Some(ColumnarValue::Scalar(literal)) => Some(literal),
            _ => None,
        };
        let (of, model) = self.find(literal)?;
        let compiled = model.compiled(&of, self.settings.threads, &self.settings.limits)?;
        let mut columns = Vec::new();
        check_count(&model, args.args.len().saturating_sub(1))?;
        // A batch without rows gets no columns, because the lengths of its lists are unknown.
        let inputs = if args.number_rows == 0 { &[] } else { model.inputs.as_slice() };
        let given = args.args.iter().skip(1).zip(args.arg_fields.iter().skip(1));
        for (input, (value, field)) in inputs.iter().zip(given) {
            types::check_column(input, &Field::new("", value.data_type(), true))?;
            let array = |value: &ColumnarValue, rows| {
                let array = value.to_array(rows);
                array.map_err(|_| Error::NotLiteral { input: input.name.clone() })
            };
            columns.push(match value {
                ColumnarValue::Scalar(_) if input.is_scalar() => Column::once(input, &array(value, 1)?)?,
                _ if input.is_scalar() => return Err(Error::NotLiteral { input: input.name.clone() }),
                _ => Column::of(input, &array(value, args.number_rows)?, field)?,
            });
        }
        // An immutable function must return equal results for equal rows, so the result of a row must not depend on other rows of the
        // batch.
        let guarded = self.signature.volatility == Volatility::Immutable;
        run_batch(&of, &compiled, &columns, (args.number_rows, guarded))
    }
}

impl ScalarUDFImpl for RunFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[ArrowType]) -> Result<ArrowType> {
        // The type depends on the model, which this method does not receive. `return_field_from_args` does.
        Err(Error::ModelArgument { function: self.name, got: "nothing but types".to_owned() }.into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let (_, model) = self.find(args.scalar_arguments.first().copied().flatten())?;
        check_count(&model, args.arg_fields.len().saturating_sub(1))?;
        for (input, field) in model.inputs.iter().zip(args.arg_fields.iter().skip(1)) {
            types::check_column(input, field)?;
        }
        Ok(Arc::new(types::result_field(self.name, &model)))
    }

    /// Adds the hash of the model to the query, and makes the path absolute.
    fn simplify(&self, mut args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(Expr::Literal(literal, metadata)) = args.first() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        let (mut of, model) = self.find(Some(literal))?;
        if of.sha256.is_some() {
            return Ok(ExprSimplifyResult::Original(args));
        }
        of.sha256 = Some(model.hash);
        if let ModelPlace::File(path) = ModelPlace::of(&of.location) {
            let absolute = std::path::absolute(path).ok();
            of.location = absolute.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or(of.location);
        }
        let pinned = Expr::Literal(ScalarValue::Utf8(Some(of.to_string())), metadata.clone());
        if let Some(first) = args.first_mut() {
            *first = pinned;
        }
        let function = Arc::new(ScalarUDF::new_from_impl(RunFunction::new(
            self.name,
            self.signature.volatility,
            self.settings.clone(),
        )));
        Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(ScalarFunction::new_udf(function, args))))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Array(self.run(&args)?))
    }
}

/// Checks the number of columns against the inputs. The last inputs may be optional.
fn check_count(model: &Model, got: usize) -> Result<(), Error> {
    let fits = got <= model.inputs.len() && model.inputs.iter().skip(got).all(|input| input.optional);
    if fits {
        return Ok(());
    }
    Err(Error::ColumnCount { location: model.location.clone(), expected: model.signature(), got })
}

/// Runs a model on all rows of a batch. If `guarded` is true, the results of a row must not depend on other rows.
fn run_batch(
    of: &ModelRef,
    compiled: &Compiled,
    columns: &[Column<'_>],
    (rows, guarded): (usize, bool),
) -> Result<ArrayRef, Error> {
    let model = &compiled.model;
    let most = of.memory.map_or(RESULT_BYTES, NonZeroUsize::get);
    let mut results: Vec<_> = model.outputs.iter().map(|output| Results::new(output, rows, most)).collect();
    let mut together = match model.rows {
        Rows::Single => 1,
        Rows::Joined => of.batch.map_or_else(|| rows_of_run(model, columns), NonZeroUsize::get),
    };
    if guarded && rows > 0 && together > 1 {
        model.check_rows(columns.iter().map(Column::row_input).collect(), together)?;
    }
    let mut start = 0;
    while start < rows {
        let now = together.min(rows - start);
        let ran = run(compiled, columns, start, now, &mut results);
        match ran {
            Ok(()) => start += now,
            // Retries with fewer rows, which need less memory. A failed run leaves no results behind. A backend may hide the cause in an
            // error of its own, so a query with a memory limit retries after any error of a run.
            Err(error @ Error::Run { .. }) if now > 1 && (of.memory.is_some() || is_memory(&error)) => {
                together = now / 2;
            }
            Err(error) => return Err(error),
        }
    }
    let mut arrays = Vec::with_capacity(results.len());
    for result in results {
        arrays.push(result.finish()?);
    }
    match (arrays.pop(), arrays.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            arrays.extend(last);
            let ArrowType::Struct(fields) = types::result_field("", model).data_type().clone() else {
                return Err(results_error(model, arrays.len()));
            };
            let joined = StructArray::try_new_with_length(fields, arrays, None, rows);
            let joined = joined.map_err(|source| Error::Arrow { output: model.location.clone(), source })?;
            Ok(Arc::new(joined))
        }
    }
}

/// Returns the number of rows whose inputs and outputs together fit into a run.
fn rows_of_run(model: &Model, columns: &[Column<'_>]) -> usize {
    let inputs = columns.iter().map(Column::row_bytes);
    let outputs = model.outputs.iter().map(|output| match &output.form {
        Form::Tensor { dtype, row } => row.iter().fold(element_bytes(*dtype), |bytes, dim| match dim {
            Dim::Known(n) => bytes.saturating_mul(*n),
            Dim::Symbol(_) | Dim::Computed(_) | Dim::Unknown => bytes,
        }),
        Form::Maps { key, value } => 64 * (element_bytes(*key) + element_bytes(*value)),
    });
    let bytes = inputs.chain(outputs).fold(1usize, usize::saturating_add);
    (RUN_BYTES / bytes).max(1)
}

/// Runs a model once, and adds its results if the run succeeds.
fn run(
    compiled: &Compiled,
    columns: &[Column<'_>],
    start: usize,
    rows: usize,
    results: &mut [Results<'_>],
) -> Result<(), Error> {
    let model = &compiled.model;
    let failed = |source| Error::Run { location: model.location.clone(), rows, source: Box::new(source) };
    let mut values = Vec::with_capacity(model.inputs.len());
    for column in columns {
        let data = column.tensor(start, rows)?;
        values.push(Some(compiled.on.runtime().constant(&data).map_err(failed)?));
    }
    values.resize(model.inputs.len(), None);
    let host = |value: &Value| compiled.on.to_host(value).map_err(failed);
    if model.outputs.iter().all(|output| matches!(output.form, Form::Tensor { .. })) {
        let values: Vec<Option<&Value>> = values.iter().map(Option::as_ref).collect();
        let got = compiled.executable.run(&values).map_err(failed)?;
        if got.len() != results.len() {
            return Err(results_error(model, got.len()));
        }
        let got: Vec<TensorData> = got.iter().map(host).collect::<Result<_, _>>()?;
        return results.iter_mut().zip(got).try_for_each(|(result, got)| result.push(rows, got));
    }
    let values: Vec<_> = values.into_iter().map(|value| value.map(OnnxValue::Tensor)).collect();
    let got = compiled.executable.run_items(&values).map_err(failed)?;
    if got.len() != results.len() {
        return Err(results_error(model, got.len()));
    }
    for (result, got) in results.iter_mut().zip(got) {
        match got {
            OnnxValue::Tensor(got) => result.push(rows, host(&got)?)?,
            OnnxValue::Sequence(maps) if maps.len() == rows => {
                for map in maps {
                    let OnnxValue::Map { keys, values } = map else {
                        return Err(result.unlike("maps", rows, map.kind().to_owned()));
                    };
                    result.push_map(keys, host(&values)?)?;
                }
            }
            OnnxValue::Sequence(items) => {
                return Err(result.unlike("one map for each row", rows, format!("{} items", items.len())));
            }
            other => return Err(result.unlike("a tensor or maps", rows, other.kind().to_owned())),
        }
    }
    Ok(())
}

fn results_error(model: &Model, got: usize) -> Error {
    Error::Results { location: model.location.clone(), expected: model.outputs.len(), got }
}

/// Returns whether a run failed because it exceeded a memory limit or the system's memory.
fn is_memory(error: &Error) -> bool {
    let Error::Run { source, .. } = error else { return false };
    if source.memory_pressure().is_some() {
        return true;
    }
    let too_much = |error: &bb::ir::Error| match error {
        bb::ir::Error::TooLarge { .. } | bb::ir::Error::Memory { .. } => true,
        bb::ir::Error::Limit { name, .. } => *name == Some("run_bytes"),
        _ => false,
    };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(source.as_ref());
    while let Some(error) = cause {
        // `bb::Error::Ir` is transparent: its source skips the inner error, so the inner error is checked here.
        if let Some(bb::Error::Ir(error)) = error.downcast_ref::<bb::Error>() {
            return too_much(error);
        }
        if let Some(error) = error.downcast_ref::<bb::ir::Error>() {
            return too_much(error);
        }
        cause = error.source();
    }
    false
}
