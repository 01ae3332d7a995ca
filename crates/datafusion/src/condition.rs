//! Conditions of a query that a scan takes over.

use bedload::arrow::schema::{DataType, Field};
use bedload::{Operator, Predicate, Scan, TableSchema};
use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{self as logical, BinaryExpr, Expr};

use crate::time_range::TimeRange;

/// A scan takes over `NOT IN` of at most this many values: it compares each with all rows.
const NOT_IN_MAX: usize = 16;

/// A condition that a scan meets exactly.
#[derive(Debug, Clone)]
pub(crate) enum Condition {
    /// The times of the rows.
    Time(TimeRange),
    /// Predicates on a column, all of which hold.
    Column(ColumnCondition),
}

/// A condition on the values of a column.
#[derive(Debug, Clone)]
pub(crate) struct ColumnCondition {
    column: String,
    predicates: Vec<Predicate>,
    /// The condition as it was written.
    text: String,
}

impl ColumnCondition {
    /// Gives the scan this condition too.
    pub(crate) fn apply(&self, scan: Scan) -> bedload::Result<Scan> {
        self.predicates.iter().try_fold(scan, |scan, predicate| {
            scan.filter(&self.column, predicate.clone())
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl Condition {
    /// The condition that an expression is; `None` if a scan cannot meet it exactly.
    ///
    /// Values compare in a scan as they do in DataFusion: both use Arrow's kernels, or do as these
    /// do. Only NaNs whose sign bit is set differ, which are below all numbers in DataFusion, and
    /// NaNs like others in a scan.
    pub(crate) fn of(expr: &Expr, schema: &TableSchema) -> Option<Self> {
        if let Some(range) = time_range(expr, schema) {
            return Some(Self::Time(range));
        }
        let (column, predicates) = match expr {
            // A column may be nullable in a union or a join and not in the table: the optimizer
            // makes constants of filters that it has pushed down already.
            Expr::Literal(ScalarValue::Boolean(Some(true)), _) => return Some(Self::Time(TimeRange::ALL)),
            Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => {
                return Some(Self::Time(TimeRange::EMPTY));
            }
            Expr::BinaryExpr(comparison) => compared(comparison, schema)?,
            Expr::InList(list) => {
                let field = field_of(&list.expr, schema)?;
                let literals = list.list.iter().map(|value| listed(value, field));
                let literals = literals.collect::<Option<Vec<_>>>()?;
                (field, among(&literals, list.negated)?)
            }
            Expr::IsNull(column) => (field_of(column, schema)?, vec![Predicate::is_null()]),
            Expr::IsNotNull(column) => (field_of(column, schema)?, vec![Predicate::is_not_null()]),
            Expr::Column(_) => boolean(expr, true, schema)?,
            Expr::IsTrue(column) => boolean(column, true, schema)?,
            Expr::Not(column) | Expr::IsFalse(column) => boolean(column, false, schema)?,
            _ => return None,
        };
        Some(Self::Column(ColumnCondition {
            column: column.name().clone(),
            predicates,
            text: expr.human_display().to_string(),
        }))
    }
}

/// The range of times that an expression selects.
fn time_range(expr: &Expr, schema: &TableSchema) -> Option<TimeRange> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return None;
    };
    match (left.as_ref(), right.as_ref()) {
        (time, Expr::Literal(value, _)) => time_compared(time, *op, value, schema),
        (Expr::Literal(value, _), time) => time_compared(time, op.swap()?, value, schema),
        _ => None,
    }
}

/// The range of times for which the time column, if `time` is that, compares so with `value`.
fn time_compared(
    time: &Expr,
    operator: logical::Operator,
    value: &ScalarValue,
    schema: &TableSchema,
) -> Option<TimeRange> {
    let column = schema.arrow().field(schema.time_column());
    if field_of(time, schema)? != column || value.data_type() != *column.data_type() {
        return None;
    }
    let (ScalarValue::TimestampSecond(ticks, _)
    | ScalarValue::TimestampMillisecond(ticks, _)
    | ScalarValue::TimestampMicrosecond(ticks, _)
    | ScalarValue::TimestampNanosecond(ticks, _)) = value
    else {
        return None;
    };
    TimeRange::comparing(operator, (*ticks)?)
}

/// The column and the predicates of a comparison with a constant of the column's type.
fn compared<'a>(comparison: &BinaryExpr, schema: &'a TableSchema) -> Option<(&'a Field, Vec<Predicate>)> {
    let BinaryExpr { left, op, right } = comparison;
    let (column, op, value) = match (left.as_ref(), right.as_ref()) {
        (column, value @ Expr::Literal(..)) => (column, *op, value),
        (value @ Expr::Literal(..), column) => (column, op.swap()?, value),
        _ => return None,
    };
    let operator = match op {
        logical::Operator::Eq => Operator::Eq,
        logical::Operator::NotEq => Operator::NotEq,
        logical::Operator::Lt => Operator::Lt,
        logical::Operator::LtEq => Operator::LtEq,
        logical::Operator::Gt => Operator::Gt,
        logical::Operator::GtEq => Operator::GtEq,
        _ => return None,
    };
    let field = field_of(column, schema)?;
    let value = literal_of(value, field)?;
    Some((field, vec![predicate(operator, &value)?]))
}

fn predicate(operator: Operator, value: &ScalarValue) -> Option<Predicate> {
    let value: ArrayRef = value.to_array().ok()?;
    Predicate::compare(operator, &value).ok()
}

/// The predicates of being one of some values, or none of them.
fn among(literals: &[ScalarValue], negated: bool) -> Option<Vec<Predicate>> {
    if negated {
        if literals.len() > NOT_IN_MAX {
            return None;
        }
        let differs = |value| predicate(Operator::NotEq, value);
        return literals.iter().map(differs).collect();
    }
    let literals = ScalarValue::iter_to_array(literals.iter().cloned()).ok()?;
    Some(vec![Predicate::is_in(&literals).ok()?])
}

/// The predicate of a column of booleans that is true, or false.
fn boolean<'a>(column: &Expr, wanted: bool, schema: &'a TableSchema) -> Option<(&'a Field, Vec<Predicate>)> {
    let field = field_of(column, schema)?;
    if *field.data_type() != DataType::Boolean {
        return None;
    }
    let wanted = BooleanArray::from(vec![wanted]);
    Some((field, vec![Predicate::compare(Operator::Eq, &wanted).ok()?]))
}

/// The table's column that an expression is.
fn field_of<'a>(expr: &Expr, schema: &'a TableSchema) -> Option<&'a Field> {
    match expr {
        Expr::Column(Column { name, .. }) => schema.arrow().field_with_name(name).ok(),
        _ => None,
    }
}

/// The constant that an expression is, if it has the column's type.
fn literal_of(expr: &Expr, field: &Field) -> Option<ScalarValue> {
    match expr {
        Expr::Literal(value, _) if value.data_type() == *field.data_type() => Some(value.clone()),
        _ => None,
    }
}

/// A constant of a list. Zero and NaN are left to DataFusion, which treats them by the length of
/// the list: a short one compares values, a longer one their bits.
fn listed(expr: &Expr, field: &Field) -> Option<ScalarValue> {
    let value = literal_of(expr, field)?;
    let is_special = match &value {
        ScalarValue::Float16(Some(value)) => value.is_nan() || value.to_f32() == 0.0,
        ScalarValue::Float32(Some(value)) => value.is_nan() || *value == 0.0,
        ScalarValue::Float64(Some(value)) => value.is_nan() || *value == 0.0,
        _ => false,
    };
    (!is_special).then_some(value)
}
