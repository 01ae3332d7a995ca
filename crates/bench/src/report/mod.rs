//! Results that are kept, and the tables of documents that are made of them.
//!
//! A file of results begins with a line that says where it came from; each line behind that is a record. A document
//! has places, each between `<!-- table: … -->` and `<!-- end -->`, that [`write_tables`] fills from the files. So nobody
//! edits a number by hand, and a test finds one that is not in the files.

mod bars;
mod figures;
mod page;
mod results;

pub use page::write_tables;
pub use results::{Origin, Results, write_results};
