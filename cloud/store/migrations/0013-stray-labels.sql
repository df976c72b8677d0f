-- A job may end badly with its label perhaps on paper: the serial remembers which, so that its next job begins with the warning.

ALTER TABLE serials ADD COLUMN stray_job TEXT;
