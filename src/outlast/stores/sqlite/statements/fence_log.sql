UPDATE logs SET fence_epoch = :epoch, fence_claim = :claim
WHERE number = :number AND fence_epoch < :epoch AND NOT sealed
