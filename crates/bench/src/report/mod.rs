//! Stored results, and the tables of documents generated from them.
//!
//! A file of results begins with a line that states its origin; each further line is a record.
//! [`write_tables`] fills the parts of a document between `<!-- table: … -->` and `<!-- end -->`
//! from the files. So no number is edited by hand, and a test finds numbers that are not in the
//! files.

mod bars;
mod comparison;
mod figures;
mod losses;
mod page;
mod results;
mod summary;
mod versions;

pub use comparison::compare;
pub use page::{DOCUMENTS, write_tables};
pub use results::{Origin, Results, write_results};
