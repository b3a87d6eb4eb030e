INSERT INTO store (only, boot_id, clock_offset) VALUES (1, :boot_id, :clock_offset)
ON CONFLICT (only) DO UPDATE SET boot_id = excluded.boot_id, clock_offset = excluded.clock_offset
