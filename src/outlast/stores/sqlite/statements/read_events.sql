SELECT place & 4294967295, chain, type, content_type, epoch, time, data FROM events
WHERE place > :after AND place <= :last
ORDER BY place
