UPDATE runs SET holder = NULL, cause = :cause, updated_at = :now
WHERE number = :number
