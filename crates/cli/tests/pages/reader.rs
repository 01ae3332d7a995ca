use bedload::{Options, Result};

fn main() -> Result<()> {
    let store = Options::new().read_only(true).open("readings.bedload")?;
    let table = store.table("readings")?;
    for _ in 0..10 {
        if store.refresh()? {
            println!("{} rows", table.range(..)?.count()?);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Ok(())
}
