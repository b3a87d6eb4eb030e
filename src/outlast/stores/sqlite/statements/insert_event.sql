INSERT OR FAIL INTO events (place, chain, type, content_type, epoch, time, data) VALUES (?, ?, ?, ?, ?, ?, ?)
