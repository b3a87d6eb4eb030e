SELECT * FROM sends
WHERE server = :server AND owner = :owner AND run = :run AND kind = :kind
